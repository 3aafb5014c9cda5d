// skip_list under every scheme.
#include "matrix.h"
#include "nearmalloc/reclaim/skip_list.hpp"

namespace near_test {
namespace {

struct SkipList {
  template <class Domain>
  using set = reclaim::skip_list<Key, uint64_t, Domain>;
  static constexpr int64_t kKeys = 300;
};

INSTANTIATE_TEST_SUITE_P(SkipList, Matrix, testing::ValuesIn(all_schemes<SkipList>()), name_of);

}  // namespace
}  // namespace near_test
