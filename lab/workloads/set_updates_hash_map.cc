// `set_updates` on a hash map that grows during the prefill.
#include <nearmalloc/reclaim/hash_map.hpp>

#include "set_updates_run.h"

namespace set_updates {
namespace {

template <class Domain>
using HashMap = near::reclaim::hash_map<int64_t, uint64_t, Domain>;

}  // namespace

void run_hash_map(const Run& run) { run_under_scheme<HashMap>(run); }

}  // namespace set_updates
