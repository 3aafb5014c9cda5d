// The counters of the design under test, by name.
// Thread-safety: any thread may use it; what other threads count meanwhile may be missing.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include "designs/shared/summary.h"

namespace near_test {

inline uint64_t counter(std::string_view name) {
  near::design::Counter all[near::design::kMaxCounters];
  const size_t count = near_design_counters(all);
  for (size_t i = 0; i < count; i++) {
    if (all[i].name == name) return all[i].value;
  }
  ADD_FAILURE() << "there is no counter '" << name << "'";
  return 0;
}

// How much a counter has risen since construction.
class Rise {
 public:
  explicit Rise(std::string_view name) : name_(name), before_(counter(name)) {}
  uint64_t operator()() const { return counter(name_) - before_; }

 private:
  std::string_view name_;
  uint64_t before_;
};

}  // namespace near_test
