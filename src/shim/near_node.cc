// The near_* names that tell of nodes and allocate from them. In all four libraries.
#include <cerrno>

#include "front/locality.h"
#include "front/thread.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"

extern "C" {

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
  near::start_library();
  near::write_statistics_json(stream);
  return ferror(stream) != 0 ? EIO : 0;
}

NEAR_API void near_sample_placement(size_t pages, struct near_placement* out) noexcept {
  near::start_library();
  *out = near::sample_placement(pages);
}

}  // extern "C"
