// `set_updates` on the (a,b)-tree: 11 keys, nodes of 208 B, as published.
#include <nearmalloc/reclaim/abtree.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using AbTree = near::reclaim::abtree<int64_t, uint64_t, Domain, 11>;

}  // namespace

void run_abtree(const Run& run) { run_under_scheme<AbTree>(run); }

}  // namespace set_updates
