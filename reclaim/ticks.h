// The processor's time counter, where it can serve as a clock.
// Invariant: if ticks_are_a_clock(), ticks() runs at one rate and agrees between processors.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace near {

// True if the counter's rate is constant and the kernel itself keeps time by it, which it does only
// while the counters of all processors agree.
bool ticks_are_a_clock();

// Reads the counter. The read is not ordered against memory accesses around it. 0 where there is no
// counter.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace near
