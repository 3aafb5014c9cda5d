// A domain of any scheme that frees soon.
#pragma once

#include <cstddef>

#include "nearmalloc/reclaim/domain.hpp"

namespace near_test {

template <class Scheme>
struct BusyDomain : near::reclaim::domain<Scheme> {
  BusyDomain() : near::reclaim::domain<Scheme>({.batch_size = 8, .operations_between_checks = 1}) {}
  size_t unreclaimed() {
    this->barrier();
    return this->collect().unreclaimed;
  }
};

}  // namespace near_test
