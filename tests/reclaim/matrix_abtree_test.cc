// The (a,b)-tree under every scheme, with nodes of 208 and of 240 bytes.
#include "matrix.h"
#include "nearmalloc/reclaim/abtree.hpp"

namespace near_test {
namespace {

template <unsigned B>
struct AbTree {
  template <class Domain>
  using set = reclaim::abtree<Key, uint64_t, Domain, B>;
  static constexpr int64_t kKeys = 4000;
};

INSTANTIATE_TEST_SUITE_P(AbTree11, Matrix, testing::ValuesIn(all_schemes<AbTree<11>>()), name_of);
INSTANTIATE_TEST_SUITE_P(AbTree13, Matrix, testing::ValuesIn(all_schemes<AbTree<13>>()), name_of);

}  // namespace
}  // namespace near_test
