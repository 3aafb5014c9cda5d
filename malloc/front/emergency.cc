#include "front/emergency.h"

#include <cerrno>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "platform/os.h"
#include "sizes/size_class.h"

namespace near {
namespace {

constexpr size_t kPoolBytes = 4 * kMiB;

constinit Atomic<char*> pool{nullptr};
constinit Atomic<size_t> pool_used{0};

// The bytes before each block: they hold its size.
constexpr size_t kHeader = kBlockAlign;
static_assert(kHeader >= sizeof(size_t));

char* make_pool() {
  auto* start = static_cast<char*>(os::reserve(kPoolBytes, 64 * kKiB));
  if (start == nullptr) return nullptr;
  char* made = nullptr;
  const bool usable = os::commit(start, kPoolBytes);
  if (usable && pool.compare_exchange_strong(made, start, kRelease, kAcquire)) {  // pairs: pool
    return start;
  }
  os::unreserve(start, kPoolBytes);  // refused, or another handler made the pool first
  return made;
}

// Returns where in the pool a block of `size` bytes begins; kPoolBytes if the pool has no room.
size_t claim(size_t size, size_t alignment) {
  size_t before =
      pool_used.load(kRelaxed);  // relaxed: only a number; the pool is acquired separately
  while (true) {
    const size_t begin = align_up(before + kHeader, alignment);
    if (begin > kPoolBytes || size > kPoolBytes - begin) return kPoolBytes;
    // relaxed: as above
    if (pool_used.compare_exchange_weak(before, begin + size, kRelaxed, kRelaxed)) return begin;
  }
}

}  // namespace

void* take_emergency(size_t size, size_t alignment) {
  char* start = pool.load(kAcquire);  // pairs: pool
  if (start == nullptr) start = make_pool();
  size = max_of(size, 1);
  alignment = max_of(alignment, kBlockAlign);
  const bool possible = start != nullptr && size <= kPoolBytes && alignment <= kPoolBytes;
  // The pool is aligned to 64 KiB: a larger alignment is refused.
  const size_t begin = possible && alignment <= 64 * kKiB ? claim(size, alignment) : kPoolBytes;
  if (begin == kPoolBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  *reinterpret_cast<size_t*>(start + begin - kHeader) = size;
  return start + begin;
}

bool is_emergency(const void* block) {
  const char* start = pool.load(kAcquire);  // pairs: pool
  const auto offset = reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(start);
  return start != nullptr && offset < kPoolBytes;
}

size_t emergency_size(const void* block) {
  return *reinterpret_cast<const size_t*>(static_cast<const char*>(block) - kHeader);
}

}  // namespace near
