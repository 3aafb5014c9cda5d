// The occtree under every scheme, with both locks.
#include "matrix.h"
#include "nearmalloc/reclaim/occtree.hpp"

namespace near_test {
namespace {

template <class Lock>
struct Occtree {
  template <class Domain>
  using set = reclaim::occtree<Key, uint64_t, Domain, Lock>;
  static constexpr int64_t kKeys = 256;
};

using OcctreeWaiting = Schemes<Occtree<reclaim::waiting_lock>>;
using OcctreeSpinning = Schemes<Occtree<reclaim::spin_lock>>;

INSTANTIATE_TYPED_TEST_SUITE_P(Occtree, Matrix, OcctreeWaiting);
INSTANTIATE_TYPED_TEST_SUITE_P(OcctreeSpinning, Matrix, OcctreeSpinning);

}  // namespace
}  // namespace near_test
