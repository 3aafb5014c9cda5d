// How a heap counts the bytes that it hands out on slow paths of malloc, for the sampling profiler
// (profile/): medium and large blocks, and small blocks that are not from the list of one of its
// spans. What is from there, the heap marks (heap/marks.h).
// Thread-safety: any thread resets the countdown; the owner's thread counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

// Whether a small request is to be sampled: the block that it took was marked, or was from a
// magazine and ended the countdown.
enum class Due : uint8_t { no, by_mark, by_count };

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
  // While the heap takes a sample, it takes no other.
  void pause() { set(kPaused); }
  bool is_paused() const { return left_.load(kRelaxed) > kPaused / 2; }  // relaxed: as above
  bool is_drawn() const { return drawn_.load(kRelaxed); }                // relaxed: as above
  void record_drawn() { drawn_.store(true, kRelaxed); }                  // relaxed: as above
  void reset() {
    drawn_.store(false, kRelaxed);  // relaxed: as above
    left_.store(0, kRelaxed);       // relaxed: as above
  }

 private:
  static constexpr int64_t kPaused = INT64_MAX / 2;

  Atomic<int64_t> left_{0};
  Atomic<bool> drawn_{false};  // `left_` is a random interval, or what is left of one
};

}  // namespace near
