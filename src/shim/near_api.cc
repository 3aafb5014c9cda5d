// The near_* names: C and POSIX semantics on top of front/. In all four libraries.
#include <cerrno>
#include <climits>

#include "front/batch.h"
#include "front/front.h"
#include "front/statistics.h"
#include "front/thread.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/options.h"
#include "platform/os.h"

namespace {

using near::is_power_of_two;

void* refuse(int error) {
  errno = error;
  return nullptr;
}

#define NEAR_TEXT_OF(x) #x
#define NEAR_TEXT(x) NEAR_TEXT_OF(x)
constexpr char kVersion[] = NEAR_TEXT(NEAR_VERSION_MAJOR) "." NEAR_TEXT(
    NEAR_VERSION_MINOR) "." NEAR_TEXT(NEAR_VERSION_PATCH);

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

NEAR_API size_t near_free_batch(void* const* blocks, size_t count) noexcept {
  return near::release_batch(blocks, count);
}

NEAR_API void near_free_sized(void* block, size_t size) noexcept {
  near::release_sized(block, size);
}

NEAR_API void near_free_aligned_sized(void* block, size_t, size_t size) noexcept {
  near::release_sized(block, size);
}

NEAR_API void* near_aligned_alloc(size_t alignment, size_t size) noexcept {
  return is_power_of_two(alignment) ? near::allocate_aligned(alignment, size) : refuse(EINVAL);
}

NEAR_API int near_posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return EINVAL;
  const int before = errno;
  void* block = near::allocate_aligned(alignment, size);
  errno = before;
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

NEAR_API int near_malloc_trim(size_t pad) noexcept { return near::trim(pad) ? 1 : 0; }

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

NEAR_API struct mallinfo2 near_mallinfo2(void) noexcept {
  near_stats stats;
  near::gather_statistics(stats);
  struct mallinfo2 info{};
  info.arena = stats.committed;
  info.hblks = stats.large_blocks;
  info.hblkhd = stats.large;
  info.uordblks = stats.in_spans;
  info.fordblks = stats.committed - stats.in_spans;
  info.keepcost = stats.dirty;
  return info;
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

NEAR_API void near_malloc_stats(void) noexcept { near::print_statistics(); }

NEAR_API int near_malloc_info(int options, FILE* stream) noexcept {
  if (options != 0) return EINVAL;
  near::write_statistics_xml(stream);
  return 0;
}

NEAR_API const char* near_version(void) noexcept { return kVersion; }

NEAR_API void near_get_stats(struct near_stats* out) noexcept {
  near::start_library();
  near::gather_statistics(*out);
}

NEAR_API size_t near_check(void) noexcept { return near::check_everything(); }

NEAR_API int near_owns(const void* block) noexcept {
  return near::span_of(block) != nullptr ? 1 : 0;
}

NEAR_API int near_node_of(const void* block) noexcept {
  const near::Span* span = near::enclosing_span(block);
  if (span == nullptr || span->kind == near::SpanKind::none) return -1;
  return near::topology.kernel_id[span->region->node()];
}

NEAR_API int near_get_option(const char* name, long* value) noexcept {
  const unsigned index = near::find_option(name);
  if (index == near::kOptions) return EINVAL;
  near::start_library();
  *value = near::option(static_cast<near::Option>(index));
  return 0;
}

NEAR_API int near_set_option(const char* name, long value) noexcept {
  return near::set_option(name, value) ? 0 : EINVAL;
}

}  // extern "C"
