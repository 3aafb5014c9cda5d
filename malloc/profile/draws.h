// The mean interval between samples, and the random ones that are drawn with it for blocks that
// heaps count (heap/counted.h).
// Thread-safety: any thread draws; `begin` under the profiler's lock. A thread that meanwhile reads
// a number of the run before takes one sample with it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "heap/chance.h"

namespace near::profile {

// Its operations are relaxed, because each of its numbers is right by itself.
class Draws {
 public:
  void begin(size_t mean, uint64_t seed) {
    mean_.store(mean, kRelaxed);  // relaxed: see above
    seed_.store(seed, kRelaxed);  // relaxed: see above
    drawn_.store(0, kRelaxed);    // relaxed: see above
  }

  size_t mean() const { return mean_.load(kRelaxed); }  // relaxed: see above

  // Bytes to the next sample of a heap.
  int64_t next() {
    const uint64_t number = drawn_.fetch_add(1, kRelaxed);            // relaxed: see above
    const uint64_t bits = random_bits(seed_.load(kRelaxed), number);  // relaxed: see above
    return interval_of(bits, static_cast<double>(mean()));
  }

 private:
  Atomic<size_t> mean_{1};
  Atomic<uint64_t> seed_{0};
  Atomic<uint64_t> drawn_{0};
};

}  // namespace near::profile
