// The operating system's memory on Linux: thin calls, errno kept.
#include <linux/mempolicy.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>

#include "base/bits.h"
#include "platform/os.h"
#include "platform/saved_errno.h"

namespace near::os {

size_t page_size() { return getauxval(AT_PAGESZ); }

size_t physical_memory() {
  const SavedErrno saved;
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return kGiB;
  return static_cast<size_t>(info.totalram) * info.mem_unit;
}

size_t address_space_limit() {
  const SavedErrno saved;
  struct rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

void* reserve(size_t bytes, size_t alignment) {
  const SavedErrno saved;
  const size_t asked = bytes + alignment;
  if (asked < bytes) return nullptr;
  void* mapped =
      mmap(nullptr, asked, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start = align_up(first, alignment);
  if (start != first) munmap(mapped, start - first);
  const uintptr_t end = start + bytes;
  if (end != first + asked) munmap(reinterpret_cast<void*>(end), first + asked - end);
  return reinterpret_cast<void*>(start);
}

void unreserve(void* start, size_t bytes) {
  const SavedErrno saved;
  munmap(start, bytes);
}

bool make_readable(void* start, size_t bytes) {
  const SavedErrno saved;
  return mprotect(start, bytes, PROT_READ) == 0;
}

bool commit(void* start, size_t bytes) {
  const SavedErrno saved;
  return mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool purge(void* start, size_t bytes) {
  const SavedErrno saved;
  return madvise(start, bytes, MADV_DONTNEED) == 0;
}

bool bind(void* start, size_t bytes, unsigned node, bool strict) {
  const SavedErrno saved;
  constexpr unsigned kMaskBits = 1024;
  unsigned long mask[kMaskBits / (8 * sizeof(long))] = {};
  if (node >= kMaskBits) return false;
  mask[node / (8 * sizeof(long))] = 1UL << node % (8 * sizeof(long));
  const int mode = strict ? MPOL_BIND : MPOL_PREFERRED;
  return syscall(SYS_mbind, start, bytes, mode, mask, kMaskBits + 1UL, 0U) == 0;
}

bool locate(void* const* pages, size_t count, int* nodes) {
  const SavedErrno saved;
  if (syscall(SYS_move_pages, 0, count, pages, nullptr, nodes, 0) != 0) return false;
  for (size_t i = 0; i < count; i++) {
    if (nodes[i] < 0) nodes[i] = -1;
  }
  return true;
}

bool advise_huge_pages(void* start, size_t bytes, bool on) {
  const SavedErrno saved;
  return madvise(start, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
}

}  // namespace near::os
