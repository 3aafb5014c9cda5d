// `set_updates` on Bronson's tree, with locks that wait.
#include <nearmalloc/reclaim/occtree.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using OccTree = near::reclaim::occtree<int64_t, uint64_t, Domain>;

}  // namespace

void run_occtree(const Run& run) { run_under_scheme<OccTree>(run); }

}  // namespace set_updates
