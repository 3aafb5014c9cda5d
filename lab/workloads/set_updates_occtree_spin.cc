// `set_updates` on Bronson's tree with spin locks, as published.
#include <nearmalloc/reclaim/occtree.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using OccTreeSpin = near::reclaim::occtree<int64_t, uint64_t, Domain, near::reclaim::spin_lock>;

}  // namespace

void run_occtree_spin(const Run& run) { run_under_scheme<OccTreeSpin>(run); }

}  // namespace set_updates
