// A misuse that the reclamation library's headers notice fails the present execution.
#include "nearmalloc/reclaim/impl/fail.hpp"
#include "runner.h"

namespace near::reclaim::impl {

void fail_with(const char* what) noexcept {
  model::expect(false, what);
  std::abort();
}

}  // namespace near::reclaim::impl
