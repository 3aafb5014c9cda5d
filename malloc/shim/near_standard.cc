// The near_* twins of the standard names: C and POSIX semantics on top of front/. All four
// libraries and those of the published designs have them.
#include <cerrno>
#include <climits>

#include "front/front.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/os.h"

namespace {

using near::is_power_of_two;

void* refuse(int error) {
  errno = error;
  return nullptr;
}

}  // namespace

extern "C" {

NEAR_API void* near_malloc(size_t size) noexcept { return near::allocate(size); }

NEAR_API void* near_calloc(size_t count, size_t size) noexcept {
  return near::allocate_zeroed(count, size);
}

NEAR_API void* near_realloc(void* block, size_t size) noexcept {
  return near::reallocate(block, size);
}

NEAR_API void near_free(void* block) noexcept { near::release(block); }

NEAR_API void near_free_sized(void* block, size_t size) noexcept {
  near::release_sized(block, size);
}

NEAR_API void near_free_aligned_sized(void* block, size_t alignment, size_t size) noexcept {
  near::release_sized(block, size, alignment);
}

NEAR_API void* near_aligned_alloc(size_t alignment, size_t size) noexcept {
  return is_power_of_two(alignment) ? near::allocate_aligned(alignment, size) : refuse(EINVAL);
}

NEAR_API int near_posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  void* block = near::allocate_aligned(alignment, size);
  errno = block == nullptr ? ENOMEM : before;
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}

NEAR_API void* near_memalign(size_t alignment, size_t size) noexcept {
  if (alignment > SIZE_MAX / 2 + 1) return refuse(EINVAL);
  return near::allocate_aligned(std::bit_ceil(alignment), size);
}

NEAR_API void* near_valloc(size_t size) noexcept {
  return near::allocate_aligned(near::os::page_size(), size);
}

NEAR_API void* near_pvalloc(size_t size) noexcept {
  const size_t page = near::os::page_size();
  if (size > PTRDIFF_MAX - page) return refuse(ENOMEM);
  return near::allocate_aligned(page, near::max_of(near::align_up(size, page), page));
}

NEAR_API void* near_reallocarray(void* block, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return refuse(ENOMEM);
  return near::reallocate(block, bytes);
}

NEAR_API size_t near_malloc_usable_size(void* block) noexcept { return near::usable_size(block); }

NEAR_API int near_mallopt(int parameter, int) noexcept {
  switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX:
      return 1;
    default:
      return 0;
  }
}

NEAR_API struct mallinfo near_mallinfo(void) noexcept {
  const struct mallinfo2 wide = near_mallinfo2();
  const auto narrow = [](size_t value) { return static_cast<int>(near::min_of(value, INT_MAX)); };
  struct mallinfo info{};
  info.arena = narrow(wide.arena);
  info.hblks = narrow(wide.hblks);
  info.hblkhd = narrow(wide.hblkhd);
  info.uordblks = narrow(wide.uordblks);
  info.fordblks = narrow(wide.fordblks);
  info.keepcost = narrow(wide.keepcost);
  return info;
}

}  // extern "C"
