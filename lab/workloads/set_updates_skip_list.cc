// `set_updates` on a skip list.
#include <nearmalloc/reclaim/skip_list.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using SkipList = near::reclaim::skip_list<int64_t, uint64_t, Domain>;

}  // namespace

void run_skip_list(const Run& run) { run_under_scheme<SkipList>(run); }

}  // namespace set_updates
