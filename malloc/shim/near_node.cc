// The near_* names that report on nodes and allocate from them. All four libraries have them.
#include <cerrno>
#include <cstddef>

#include "front/on_node.h"
#include "front/profile.h"
#include "front/thread.h"
#include "inspect/explain.h"
#include "inspect/node_statistics.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"

namespace {

using near::BoundHeap;
using near::NodePolicy;
using near::topology;

struct Place {
  unsigned node;  // topology.count if the request is wrong
  NodePolicy policy;

  Place(int kernel_node, unsigned flags)
      : node(topology.count),
        policy((flags & NEAR_STRICT) != 0 ? NodePolicy::strict : NodePolicy::advisory) {
    if ((flags & ~NEAR_STRICT) != 0) return;
    for (unsigned n = 0; n < topology.count; n++) {
      if (topology.kernel_id[n] == kernel_node) node = n;
    }
  }
  bool is_wrong() const { return node == topology.count; }
};

std::nullptr_t refuse(int error) {
  errno = error;
  return nullptr;
}

// EIO if this or an earlier writing to the stream failed.
int end_writing(FILE* stream) { return fflush(stream) != 0 || ferror(stream) != 0 ? EIO : 0; }

near_heap* handle_of(BoundHeap* bound) { return reinterpret_cast<near_heap*>(bound); }
BoundHeap* bound_of(near_heap* heap) { return reinterpret_cast<BoundHeap*>(heap); }

}  // namespace

extern "C" {

NEAR_API void* near_malloc_on_node(size_t size, int node, unsigned flags) noexcept {
  return near_aligned_alloc_on_node(near::kBlockAlign, size, node, flags);
}

NEAR_API void* near_aligned_alloc_on_node(size_t alignment, size_t size, int node,
                                          unsigned flags) noexcept {
  near::start_library();
  const Place place(node, flags);
  if (place.is_wrong() || !near::is_power_of_two(alignment)) return refuse(EINVAL);
  return near::allocate_on(place.node, alignment, size, place.policy);
}

NEAR_API near_heap* near_heap_create_on_node(int node, unsigned flags) noexcept {
  near::start_library();
  const Place place(node, flags);
  if (place.is_wrong()) return refuse(EINVAL);
  return handle_of(near::make_bound_heap(place.node, 1, place.policy));
}

NEAR_API near_heap* near_heap_create_interleaved(void) noexcept {
  near::start_library();
  return handle_of(near::make_bound_heap(0, topology.count, NodePolicy::advisory));
}

NEAR_API void* near_heap_malloc(near_heap* heap, size_t size) noexcept {
  return near::allocate_from(*bound_of(heap), near::kBlockAlign, size);
}

NEAR_API void* near_heap_aligned_alloc(near_heap* heap, size_t alignment, size_t size) noexcept {
  if (!near::is_power_of_two(alignment)) return refuse(EINVAL);
  return near::allocate_from(*bound_of(heap), alignment, size);
}

NEAR_API void near_heap_destroy(near_heap* heap) noexcept {
  if (heap != nullptr) near::end_bound_heap(bound_of(heap));
}

NEAR_API int near_get_node_stats(unsigned index, struct near_node_stats* out) noexcept {
  near::start_library();
  if (index >= near::topology.count) return EINVAL;
  near::gather_node_statistics(index, *out);
  return 0;
}

NEAR_API int near_get_freed(unsigned index, uint64_t* freed_by) noexcept {
  near::start_library();
  if (index >= near::topology.count) return EINVAL;
  const near::FreedBy by = near::gather_freed(index);
  for (unsigned n = 0; n < near::topology.count; n++) freed_by[n] = by.node[n];
  return 0;
}

NEAR_API int near_stats_json(FILE* stream) noexcept {
  if (stream == nullptr) return EINVAL;
  near::start_library();
  near::write_statistics_json(near::Out(stream));
  return end_writing(stream);
}

NEAR_API int near_stats_openmetrics(FILE* stream) noexcept {
  if (stream == nullptr) return EINVAL;
  near::start_library();
  near::write_openmetrics(stream);
  return end_writing(stream);
}

NEAR_API int near_explain(FILE* stream) noexcept {
  if (stream == nullptr) return EINVAL;
  if (near::is_inside()) return ENOSYS;  // a signal handler that interrupted start_library, too
  near::start_library();
  if (!near::write_explanation(stream)) return ENOSYS;
  return end_writing(stream);
}

NEAR_API int near_profile_start(size_t interval) noexcept { return near::start_profile(interval); }

NEAR_API int near_profile_stop(void) noexcept { return near::stop_profile(); }

NEAR_API int near_profile_write(FILE* stream, enum near_profile_format format) noexcept {
  if (stream == nullptr) return EINVAL;
  const int error = near::write_profile(stream, format);
  return error != 0 ? error : end_writing(stream);
}

NEAR_API void near_sample_placement(size_t pages, struct near_placement* out) noexcept {
  near::start_library();
  *out = near::sample_placement(pages);
}

}  // extern "C"
