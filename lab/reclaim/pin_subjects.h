// What the workload `pin` times: each is a pin, the read of one shared pointer, and the unpin.
// Invariant: all read the same way and are timed by the same loop, so that their differences are
// those of the pins. Who may touch it: one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "workload.h"

namespace reclaim_lab {

struct Subject {
  const char* name;
  double (*ns)(size_t times);  // of one of so many, on average
};

// Those of xenium; empty where its headers are not installed (pin_xenium.cc, pin_no_xenium.cc).
std::vector<Subject> xenium_subjects();

// The compiler takes `value` for used.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(value));
}

template <typename Body>
double ns_each(size_t times, Body body) {
  const uint64_t start = workload::now_ns();
  for (size_t i = 0; i < times; ++i) body();
  return static_cast<double>(workload::ns_since(start)) / static_cast<double>(times);
}

}  // namespace reclaim_lab
