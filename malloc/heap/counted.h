// How a heap's malloc is made to count the bytes that it hands out: for the sampling profiler
// (profile/).
//
// The fast path of malloc reads the class of a small request from the heap's own table
// (heap/class_table.h). While the heap counts, the table says for every request that its bin is
// kEmptyBin, which never has a block. So every request takes the slow path, which counts it; and
// while the heap does not count, the fast path has no instruction more. Frees are not affected.
// Thread-safety: any thread resets the countdown; the owner's thread counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

// Bytes until the heap's next sample.
class SampleCountdown {
 public:
  // Counts bytes. True if the countdown has ended: then the caller sets it anew. Threads that
  // gave their heap up share a countdown, and may lose a count.
  NEAR_INLINE bool count(size_t bytes) {
    // relaxed: a number of the owner's thread
    const int64_t left = left_.load(kRelaxed) - static_cast<int64_t>(bytes);
    left_.store(left, kRelaxed);  // relaxed: as above
    return left < 0;
  }

  // Another thread's `reset` may be lost, which costs or adds one sample.
  void set(int64_t bytes) { left_.store(bytes, kRelaxed); }  // relaxed: as above
  bool is_drawn() const { return drawn_.load(kRelaxed); }    // relaxed: as above
  void record_drawn() { drawn_.store(true, kRelaxed); }      // relaxed: as above
  void reset() {
    drawn_.store(false, kRelaxed);  // relaxed: as above
    left_.store(0, kRelaxed);       // relaxed: as above
  }

 private:
  Atomic<int64_t> left_{0};
  Atomic<bool> drawn_{false};  // `left_` is a random interval, or what is left of one
};

}  // namespace near
