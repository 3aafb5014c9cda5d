// hash_map under every scheme; from one bucket, so that it grows while threads are inside.
#include "matrix.h"
#include "nearmalloc/reclaim/hash_map.hpp"

namespace near_test {
namespace {

template <class Domain>
struct SmallHashMap : reclaim::hash_map<Key, uint64_t, Domain> {
  explicit SmallHashMap(Domain& domain) : reclaim::hash_map<Key, uint64_t, Domain>(domain, 1) {}
};

struct HashMap {
  template <class Domain>
  using set = SmallHashMap<Domain>;
  static constexpr int64_t kKeys = 4000;
};

INSTANTIATE_TEST_SUITE_P(HashMap, Matrix, testing::ValuesIn(all_schemes<HashMap>()), name_of);

}  // namespace
}  // namespace near_test
