// The AVL tree under every scheme.
#include "matrix.h"
#include "nearmalloc/reclaim/occtree.hpp"

namespace near_test {
namespace {

struct OccTree {
  template <class Domain>
  using set = reclaim::occtree<Key, uint64_t, Domain>;
  static constexpr int64_t kKeys = 4000;
};

INSTANTIATE_TEST_SUITE_P(OccTree, Matrix, testing::ValuesIn(all_schemes<OccTree>()), name_of);

}  // namespace
}  // namespace near_test
