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

INSTANTIATE_TYPED_TEST_SUITE_P(AbTree11, Matrix, Schemes<AbTree<11>>);
INSTANTIATE_TYPED_TEST_SUITE_P(AbTree13, Matrix, Schemes<AbTree<13>>);

}  // namespace
}  // namespace near_test
