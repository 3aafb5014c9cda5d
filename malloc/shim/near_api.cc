// The near_* names that are no twins, and those that report this allocator's own state. All four
// libraries have them.
#include <cerrno>

#include "base/bits.h"
#include "front/batch.h"
#include "front/front.h"
#include "front/populate.h"
#include "front/thread.h"
#include "inspect/statistics.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/options.h"
#include "shim/version.h"

extern "C" {

NEAR_API size_t near_free_batch(void* const* blocks, size_t count) noexcept {
  return near::release_batch(blocks, count);
}

NEAR_API int near_malloc_trim(size_t pad) noexcept {
  near::start_library();
  return near::reclaim_everything(pad) > 0 ? 1 : 0;
}

NEAR_API struct mallinfo2 near_mallinfo2(void) noexcept {
  near_stats stats;
  near::gather_statistics(stats);
  const size_t large = near::min_of(stats.large, stats.in_spans);  // both may change meanwhile
  struct mallinfo2 info{};
  info.arena = stats.committed - large;
  info.hblks = stats.large_blocks;
  info.hblkhd = large;
  info.uordblks = stats.in_spans - large;
  info.fordblks = stats.committed - stats.in_spans;
  info.keepcost = stats.dirty;
  return info;
}

NEAR_API void near_malloc_stats(void) noexcept { near::write_statistics_text(near::Out()); }

NEAR_API int near_malloc_info(int options, FILE* stream) noexcept {
  if (options != 0) return EINVAL;
  near::write_statistics_xml(stream);
  return 0;
}

NEAR_API const char* near_version(void) noexcept { return NEAR_VERSION_TEXT; }

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
  if (!near::set_option(name, value)) return EINVAL;
  if (near::find_option(name) == static_cast<unsigned>(near::Option::purge_thread)) {
    near::start_library();
    near::obey_purge_option();
  }
  if (near::find_option(name) == static_cast<unsigned>(near::Option::populate_mib)) {
    return near::obey_populate_option() ? 0 : ENOMEM;
  }
  return 0;
}

}  // extern "C"
