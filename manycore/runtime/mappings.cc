// mmap and the calls around it: the host does them, the model says what they cost.
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>

#include "runtime/arena.h"
#include "runtime/calls.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

Arena arena;

size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

struct Map {
  uintptr_t address;
  size_t bytes;
  long protection, flags, file, offset;

  long at(uintptr_t place, long more_flags) const {
    return host_call(SYS_mmap, static_cast<long>(place), static_cast<long>(bytes), protection,
                     flags | more_flags, file, offset);
  }
};

// The host's part: where the caller says, else in the arena.
long place(const Map& map) {
  if ((map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0) return map.at(map.address, 0);
  if (map.address != 0) {
    const long hinted = map.at(map.address / kPageBytes * kPageBytes, MAP_FIXED_NOREPLACE);
    if (hinted > 0) return hinted;
  }
  const uintptr_t begin = arena.take(whole_pages(map.bytes));
  if (begin == 0) return -ENOMEM;
  const long placed = map.at(begin, MAP_FIXED);
  if (placed < 0) arena.give(begin, whole_pages(map.bytes));
  return placed;
}

long map(const Map& wanted) {
  order();
  if (wanted.bytes == 0) return -EINVAL;
  const long placed = place(wanted);
  if (placed < 0 && placed > -4096) {
    charge("mmap, refused", machine().system_call);
    return placed;
  }
  const auto begin = static_cast<uintptr_t>(placed);
  arena.take_at(begin, whole_pages(wanted.bytes));
  charge("mmap", pages().map(caller(), begin, whole_pages(wanted.bytes)));
  return placed;
}

long unmap(uintptr_t begin, size_t bytes) {
  order();
  const long result = host_call(SYS_munmap, static_cast<long>(begin), static_cast<long>(bytes));
  if (result != 0) return result;
  arena.give(begin, whole_pages(bytes));
  charge("munmap", pages().unmap(caller(), begin, whole_pages(bytes)));
  return 0;
}

long protect(uintptr_t begin, size_t bytes, long protection) {
  order();
  const long result =
      host_call(SYS_mprotect, static_cast<long>(begin), static_cast<long>(bytes), protection);
  charge("mprotect", pages().protect(caller(), begin, whole_pages(bytes)));
  return result;
}

long remap(uintptr_t from, size_t bytes, size_t wanted, long flags, uintptr_t to) {
  order();
  const auto move = [&](uintptr_t place) {
    return host_call(SYS_mremap, static_cast<long>(from), static_cast<long>(bytes),
                     static_cast<long>(wanted), MREMAP_MAYMOVE | MREMAP_FIXED,
                     static_cast<long>(place));
  };
  long result = (flags & MREMAP_FIXED) != 0
                    ? move(to)
                    : host_call(SYS_mremap, static_cast<long>(from), static_cast<long>(bytes),
                                static_cast<long>(wanted), 0);
  if (result == -ENOMEM && (flags & MREMAP_MAYMOVE) != 0) {
    const uintptr_t place = arena.take(whole_pages(wanted));
    result = place == 0 ? -ENOMEM : move(place);
  }
  if (result < 0 && result > -4096) return result;
  const auto place = static_cast<uintptr_t>(result);
  if (place != from) {
    arena.give(from, whole_pages(bytes));
  } else if (wanted < bytes) {
    arena.give(from + whole_pages(wanted), whole_pages(bytes) - whole_pages(wanted));
  }
  arena.take_at(place, whole_pages(wanted));
  charge("mremap", pages().move(caller(), from, whole_pages(bytes), place, whole_pages(wanted)));
  return result;
}

// MADV_POPULATE_*, MADV_COLLAPSE: every page is touched.
void populate(uintptr_t begin, size_t bytes) {
  for (uintptr_t page = begin; page < begin + bytes; page += kPageBytes) {
    spend(pages().touch(current_processor(), page, now()).cost);
  }
}

long advise(uintptr_t begin, size_t bytes, long advice) {
  order();
  const long result =
      host_call(SYS_madvise, static_cast<long>(begin), static_cast<long>(bytes), advice);
  bytes = whole_pages(bytes);
  switch (result == 0 ? advice : -1) {
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
      charge("madvise", pages().discard(caller(), begin, bytes));
      return 0;
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
      pages().set_huge(begin, bytes, advice == MADV_HUGEPAGE);
      break;
    case MADV_POPULATE_READ:
    case MADV_POPULATE_WRITE:
      populate(begin, bytes);
      break;
    default:
      break;
  }
  charge("madvise, a hint", machine().system_call);
  return result;
}

// --- where pages lie: nothing of this reaches the host, which may have one node ---

Policy policy_of(long mode) {
  switch (mode & ~long{MPOL_MODE_FLAGS}) {
    case MPOL_BIND:
      return Policy::kBind;
    case MPOL_INTERLEAVE:
      return Policy::kInterleave;
    case MPOL_PREFERRED:
      return Policy::kPreferred;
    default:
      return Policy::kFirstTouch;
  }
}

uint64_t online_nodes() { return (uint64_t{1} << machine().nodes) - 1; }

long bind(const long (&a)[6]) {
  order();
  charge("mbind", machine().system_call);
  const auto* const mask = reinterpret_cast<const uint64_t*>(a[3]);
  const uint64_t nodes = mask == nullptr || a[4] < 2 ? 0 : *mask;
  if ((nodes & ~online_nodes()) != 0) return -EINVAL;
  pages().set_policy(static_cast<uintptr_t>(a[0]), whole_pages(static_cast<size_t>(a[1])),
                     policy_of(a[2]), nodes);
  return 0;
}

long get_policy(const long (&a)[6]) {
  charge("get_mempolicy", machine().system_call);
  auto* const mode = reinterpret_cast<int*>(a[0]);
  auto* const mask = reinterpret_cast<uint64_t*>(a[1]);
  int found = MPOL_DEFAULT;
  if ((a[4] & (MPOL_F_NODE | MPOL_F_ADDR)) == (MPOL_F_NODE | MPOL_F_ADDR)) {
    found = static_cast<int>(
        pages().touch(current_processor(), static_cast<uintptr_t>(a[3]), now()).node);
  }
  if (mode != nullptr) *mode = found;
  if (mask != nullptr) {
    std::fill_n(mask, static_cast<size_t>(a[2]) / 64, uint64_t{0});
    *mask = (a[4] & MPOL_F_MEMS_ALLOWED) != 0 ? online_nodes() : 0;
  }
  return 0;
}

long where_pages_are(const long (&a)[6]) {
  charge("move_pages", machine().system_call);
  if (a[3] != 0) return -ENOSYS;  // moving
  const auto* const addresses = reinterpret_cast<const uintptr_t*>(a[2]);
  auto* const status = reinterpret_cast<int*>(a[4]);
  for (long i = 0; i < a[1]; ++i) {
    const int node = pages().node_of(addresses[i]);
    status[i] = node < 0 ? -ENOENT : node;
  }
  return 0;
}

long advise_ranges(const long (&a)[6]) {
  const auto* const ranges = reinterpret_cast<const iovec*>(a[1]);
  size_t done = 0;
  for (long i = 0; i < a[2]; ++i) {
    const long result =
        advise(reinterpret_cast<uintptr_t>(ranges[i].iov_base), ranges[i].iov_len, a[3]);
    if (result != 0) return done == 0 ? result : static_cast<long>(done);
    done += ranges[i].iov_len;
  }
  return static_cast<long>(done);
}

}  // namespace

bool simulated_mapping(long number, const long (&a)[6], long& result) {
  const auto address = static_cast<uintptr_t>(a[0]);
  const auto bytes = static_cast<size_t>(a[1]);
  switch (number) {
    case SYS_mmap:
      result = map({address, bytes, a[2], a[3], a[4], a[5]});
      return true;
    case SYS_munmap:
      result = unmap(address, bytes);
      return true;
    case SYS_mprotect:
      result = protect(address, bytes, a[2]);
      return true;
    case SYS_mremap:
      result = remap(address, bytes, static_cast<size_t>(a[2]), a[3], static_cast<uintptr_t>(a[4]));
      return true;
    case SYS_madvise:
      result = advise(address, bytes, a[2]);
      return true;
    case SYS_process_madvise:
      result = advise_ranges(a);
      return true;
    case SYS_mbind:
      result = bind(a);
      return true;
    case SYS_get_mempolicy:
      result = get_policy(a);
      return true;
    case SYS_set_mempolicy:
      charge("set_mempolicy", machine().system_call);
      result = policy_of(a[0]) == Policy::kFirstTouch ? 0 : -ENOSYS;
      return true;
    case SYS_move_pages:
      result = where_pages_are(a);
      return true;
    default:
      return false;
  }
}

namespace {

long mapping_call(long number, long a, long b, long c = 0, long d = 0, long e = 0, long f = 0) {
  if (!simulated) return answer(host_call(number, a, b, c, d, e, f));
  long result = 0;
  simulated_mapping(number, {a, b, c, d, e, f}, result);
  return answer(result);
}

}  // namespace

NEAR_INTERPOSED void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                           off_t offset) noexcept {
  return reinterpret_cast<void*>(mapping_call(SYS_mmap, word(address), static_cast<long>(bytes),
                                              protection, flags, file, offset));
}
NEAR_INTERPOSED void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                             off64_t offset) noexcept {
  return mmap(address, bytes, protection, flags, file, offset);
}
NEAR_INTERPOSED int munmap(void* address, size_t bytes) noexcept {
  return static_cast<int>(mapping_call(SYS_munmap, word(address), static_cast<long>(bytes)));
}
NEAR_INTERPOSED int mprotect(void* address, size_t bytes, int protection) noexcept {
  return static_cast<int>(
      mapping_call(SYS_mprotect, word(address), static_cast<long>(bytes), protection));
}
NEAR_INTERPOSED void* mremap(void* address, size_t bytes, size_t wanted, int flags,
                             ...) noexcept {
  va_list list;
  va_start(list, flags);
  const long to = (flags & MREMAP_FIXED) != 0 ? va_arg(list, long) : 0;
  va_end(list);
  return reinterpret_cast<void*>(mapping_call(SYS_mremap, word(address), static_cast<long>(bytes),
                                              static_cast<long>(wanted), flags, to));
}
NEAR_INTERPOSED int madvise(void* address, size_t bytes, int advice) noexcept {
  return static_cast<int>(
      mapping_call(SYS_madvise, word(address), static_cast<long>(bytes), advice));
}

}  // namespace near::manycore
