// What the tests of domains share: every scheme that frees, and objects that are counted.
// Thread-safety: any thread of a test.
#pragma once

#include <gtest/gtest.h>

#include <atomic>

#include "nearmalloc/reclaim/domain.hpp"

namespace near_test {

using EveryScheme =
    testing::Types<near::reclaim::debra<near::reclaim::announce::before_free>,
                   near::reclaim::debra<near::reclaim::announce::after_free>,
                   near::reclaim::token<near::reclaim::pass::after_free>,
                   near::reclaim::token<near::reclaim::pass::before_free>,
                   near::reclaim::token<near::reclaim::pass::while_freeing>,
                   near::reclaim::checkpoints, near::reclaim::hazard_pointers,
                   near::reclaim::ping_epochs, near::reclaim::ibr, near::reclaim::hyaline>;

// Each operation looks at another thread, each retirement is a batch, and what is safe is freed at
// once.
inline near::reclaim::options hasty() {
  near::reclaim::options settings;
  settings.batch_size = 1;
  settings.operations_between_checks = 1;
  settings.reclaim = near::reclaim::policy::batch();
  return settings;
}

// The number of objects that live.
inline std::atomic<long> live_objects{0};

struct CountedObject {
  CountedObject() { live_objects++; }
  ~CountedObject() {
    live_objects--;
    alive_ = false;
  }
  CountedObject(const CountedObject&) = delete;
  CountedObject& operator=(const CountedObject&) = delete;

  // False, or an arbitrary value, after it is destroyed.
  bool is_alive() const { return alive_; }

 private:
  std::atomic<bool> alive_{true};
};

}  // namespace near_test
