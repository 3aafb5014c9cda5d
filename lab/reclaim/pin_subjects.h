// The subjects of the workload `pin`: each is a pin, the read of one shared pointer, and the unpin.
// Invariant: all read the same way and the same loop times them, so their times differ only by
// their pins. Thread-safety: one thread.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reclaim_lab {

struct Subject {
  const char* name;
  double (*ns)(size_t times);  // runs `times` pins; returns the mean time of one
};

// xenium's subjects; none if its headers are not installed (pin_xenium.cc, pin_no_xenium.cc).
std::vector<Subject> xenium_subjects();

// Makes the compiler treat `value` as used.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(value));
}

// The CPU time of the calling thread, in ns; time of other threads does not count.
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
