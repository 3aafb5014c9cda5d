// What the workload `pin` times: each is a pin, the read of one shared pointer, and the unpin.
// Invariant: all read the same way and are timed by the same loop, so that their differences are
// those of the pins. Thread-safety: one thread.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <vector>

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

// Of the thread's own time: that others ran meanwhile does not count.
inline uint64_t thread_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

template <typename Body>
double ns_each(size_t times, Body body) {
  const uint64_t start = thread_ns();
  for (size_t i = 0; i < times; ++i) body();
  return static_cast<double>(thread_ns() - start) / static_cast<double>(times);
}

}  // namespace reclaim_lab
