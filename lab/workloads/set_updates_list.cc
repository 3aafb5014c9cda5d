// `set_updates` on one ordered list: for few keys.
#include <nearmalloc/reclaim/list.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using List = near::reclaim::list_set<int64_t, uint64_t, Domain>;

}  // namespace

void run_list(const Run& run) { run_under_scheme<List>(run); }

}  // namespace set_updates
