// list_set under every scheme.
#include "matrix.h"
#include "nearmalloc/reclaim/list.hpp"

namespace near_test {
namespace {

struct ListSet {
  template <class Domain>
  using set = reclaim::list_set<Key, uint64_t, Domain>;
  static constexpr int64_t kKeys = 64;
};

INSTANTIATE_TEST_SUITE_P(ListSet, Matrix, testing::ValuesIn(all_schemes<ListSet>()), name_of);

}  // namespace
}  // namespace near_test
