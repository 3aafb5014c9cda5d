// platform/os.h on Linux: thin wrappers of system calls that keep errno.
#include <linux/mempolicy.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>

#include "base/atomic.h"
#include "base/bits.h"
#include "platform/clock.h"
#include "platform/os.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"

// Of the sanitizers' run-time libraries; null in a program without them.
extern "C" {
void __tsan_init() __attribute__((weak));
void __msan_init() __attribute__((weak));
}

namespace near::os {

size_t page_size() { return getauxval(AT_PAGESZ); }

size_t physical_memory() {
  const SavedErrno saved;
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return kGiB;
  return static_cast<size_t>(info.totalram) * info.mem_unit;
}

namespace {

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr int kWritable = PROT_READ | PROT_WRITE;

constinit Atomic<size_t> recorded_limit{SIZE_MAX};
constinit Atomic<size_t> memory_and_swap{SIZE_MAX};
constinit Atomic<bool> moves_refused{false};

// The number at the start of a file; `otherwise` if the file cannot be read.
size_t number_in(const char* path, size_t otherwise) {
  const SavedErrno saved;
  const int file = raw::open_to_read(path);
  if (file < 0) return otherwise;
  char text[16];
  const ssize_t length = raw::read(file, text, sizeof text);
  raw::close(file);
  size_t value = 0;
  for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
    value = value * 10 + static_cast<size_t>(text[i] - '0');
  }
  return value;
}

size_t limit_of(decltype(RLIMIT_AS) which) {
  struct rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

// Returns the first aligned `bytes` of a mapping of `all` bytes, and unmaps the rest of it.
void* keep_aligned(void* mapped, size_t all, size_t bytes, size_t alignment) {
  const auto first = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start = align_up(first, alignment);
  if (start != first) munmap(mapped, start - first);
  const uintptr_t end = start + bytes;
  if (end != first + all) munmap(reinterpret_cast<void*>(end), first + all - end);
  return reinterpret_cast<void*>(start);
}

}  // namespace

void record_limits() {
  const SavedErrno saved;
  // relaxed: if two threads change limits at once, either may store last
  recorded_limit.store(min_of(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)), kRelaxed);
  struct sysinfo info{};
  if (sysinfo(&info) != 0) return;
  const auto all = static_cast<size_t>(info.totalram + info.totalswap) * info.mem_unit;
  memory_and_swap.store(all, kRelaxed);  // relaxed: as above
}

size_t limit() { return recorded_limit.load(kRelaxed); }  // relaxed: used for policy only

// TSan and MSan let a program use only the upper end of the address space.
Landmark landmark() {
  const bool is_narrow = &__tsan_init != nullptr || &__msan_init != nullptr;
  return {getauxval(AT_RANDOM), is_narrow ? 64 * kGiB : SIZE_MAX};
}

// Maps without MAP_NORESERVE, so that the system refuses what it cannot provide. Kernels before
// 4.17 and some emulators treat the address as a hint.
Mapped map(void* start, size_t bytes) {
  const SavedErrno saved;
  void* mapped = mmap(start, bytes, kWritable, kAnonymous | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == MAP_FAILED) return errno == EEXIST ? Mapped::occupied : Mapped::refused;
  if (mapped == start) return Mapped::done;
  munmap(mapped, bytes);
  return Mapped::occupied;
}

// First maps exactly `bytes`, which may be aligned by chance: a limit may not allow more.
void* map_anywhere(size_t bytes, size_t alignment) {
  const SavedErrno saved;
  void* mapped = mmap(nullptr, bytes, kWritable, kAnonymous, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (reinterpret_cast<uintptr_t>(mapped) % alignment == 0) return mapped;
  munmap(mapped, bytes);
  const size_t all = bytes + alignment;
  if (all < bytes) return nullptr;
  mapped = mmap(nullptr, all, kWritable, kAnonymous, -1, 0);
  return mapped == MAP_FAILED ? nullptr : keep_aligned(mapped, all, bytes, alignment);
}

bool unmap(void* start, size_t bytes) {
  const SavedErrno saved;
  return munmap(start, bytes) == 0;
}

bool move(void* from, size_t from_bytes, void* to, size_t to_bytes) {
  const SavedErrno saved;
  constexpr int kTo = MREMAP_MAYMOVE | MREMAP_FIXED;
  if (syscall(SYS_mremap, from, from_bytes, to_bytes, kTo, to) == reinterpret_cast<long>(to)) {
    return true;
  }
  if (errno == EPERM || errno == ENOSYS) moves_refused.store(true, kRelaxed);  // relaxed: a hint
  return false;
}

bool can_move() { return !moves_refused.load(kRelaxed); }  // relaxed: a hint

bool refuses(size_t bytes) {
  // relaxed: as in record_limits
  return bytes > min_of(limit(), memory_and_swap.load(kRelaxed)) && !grants(bytes);
}

bool overcommits() { return number_in("/proc/sys/vm/overcommit_memory", 0) != 2; }

size_t most_mappings() {
  const size_t most = number_in("/proc/sys/vm/max_map_count", kUsualMappings);
  return most == 0 ? kUsualMappings : most;
}

bool grants(size_t bytes) {
  void* tried = map_anywhere(bytes, page_size());
  if (tried != nullptr) unmap(tried, bytes);
  return tried != nullptr;
}

void* reserve(size_t bytes, size_t alignment) {
  const SavedErrno saved;
  const size_t asked = bytes + alignment;
  if (asked < bytes) return nullptr;
  void* mapped =
      mmap(nullptr, asked, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  return keep_aligned(mapped, asked, bytes, alignment);
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

namespace {

enum class Advice : uint8_t { untried, honest, lies, unknown };
constinit Atomic<Advice> purge_advice{Advice::untried};

// Some sandboxes and emulators accept the advice to drop a page but keep its contents.
Advice try_advice() {
  const size_t page = page_size();
  void* mapped = mmap(nullptr, page, kWritable, kAnonymous, -1, 0);
  if (mapped == MAP_FAILED) return Advice::unknown;
  auto* byte = static_cast<volatile char*>(mapped);
  *byte = 1;
  const bool accepted = madvise(mapped, page, MADV_DONTNEED) == 0;
  const Advice found = accepted && *byte != 0 ? Advice::lies : Advice::honest;
  munmap(mapped, page);
  return found;
}

}  // namespace

bool purge(void* start, size_t bytes) {
  const SavedErrno saved;
  Advice advice = purge_advice.load(kRelaxed);  // relaxed: every thread would store the same
  if (advice == Advice::untried) {
    advice = try_advice();
    if (advice == Advice::unknown) return false;
    purge_advice.store(advice, kRelaxed);  // relaxed: as above
  }
  if (advice == Advice::honest) return madvise(start, bytes, MADV_DONTNEED) == 0;
  // Maps fresh pages over the range. They lose binding and advice, which matter little there.
  return mmap(start, bytes, kWritable, kAnonymous | MAP_FIXED, -1, 0) == start;
}

// Touches the pages itself where the kernel (before 5.14) or a filter rejects the advice.
bool populate(void* start, size_t bytes) {
  const SavedErrno saved;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  while (madvise(start, bytes, kPopulateWrite) != 0) {
    if (errno == EAGAIN) continue;
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) return false;
    auto* byte = static_cast<volatile char*>(start);
    for (size_t at = 0; at < bytes; at += page_size()) byte[at] = byte[at];
    return true;
  }
  return true;
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

uint64_t touch(void* byte) {
  const uint64_t before = clock_ns(CLOCK_MONOTONIC);
  *static_cast<volatile char*>(byte) = 0;
  return clock_ns(CLOCK_MONOTONIC) - before;
}

}  // namespace near::os
