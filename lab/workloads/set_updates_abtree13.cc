// `set_updates` on the (a,b)-tree: 13 keys, nodes of 240 B as in [Kim23].
#include <nearmalloc/reclaim/abtree.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using AbTree13 = near::reclaim::abtree<int64_t, uint64_t, Domain, 13>;

}  // namespace

void run_abtree13(const Run& run) { run_under_scheme<AbTree13>(run); }

}  // namespace set_updates
