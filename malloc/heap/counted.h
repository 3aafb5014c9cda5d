// How a heap's malloc is made to count the bytes that it hands out: for the sampling profiler
// (profile/).
//
// The fast path of malloc reads from the heap's own table (heap/class_table.h) in which bin the
// block of a small request is. While the heap counts, the table names not the bin of a hot span but
// that of the blocks that are counted ahead. When that bin is empty, the slow path counts as many
// blocks as come before the class's next sample, but few, and moves them there from the hot span's
// bin. So most requests take the fast path as it is, and while the heap does not count, the fast
// path has no instruction more. Frees are not affected.
// Each class has its own countdown, in blocks: its blocks are counted in the order in which they
// are handed out, whatever other classes do. One countdown for all would favour the requests that
// come while blocks of another class are counted ahead.
// Invariant: blocks ahead are of the class's hot span; no free pushes to their bin; to the rest of
// the allocator they are blocks that the program holds. They go back to the hot span's bin before
// its free blocks are counted, and before it is no longer hot.
// When the profiler starts, it leads the table to an empty bin; the owner's next slow path then
// begins to count: it moves what is left of an earlier run back, and forgets the countdowns.
// Thread-safety: any thread resets a SampleCountdown; the owner's thread does everything else, with
// the heap's lock held where blocks are moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"

namespace near {

// Bytes until the heap's next sample among requests that are not counted ahead.
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

// Blocks of a small class that come before its next sample. A countdown that is not drawn stays so
// whatever is counted. The owner's thread.
class BlockCountdown {
 public:
  static constexpr uint32_t kMost = UINT32_MAX - 1;

  bool is_drawn() const { return left_ != kNotDrawn; }
  uint32_t left() const { return left_; }
  void set(uint32_t blocks) { left_ = blocks; }
  void reset() { set(kNotDrawn); }

  void take(uint32_t blocks) {
    if (is_drawn()) left_ -= static_cast<uint32_t>(min_of(left_, blocks));
  }
  // The blocks were counted and not handed out.
  void give_back(uint32_t blocks) {
    if (is_drawn()) left_ += static_cast<uint32_t>(min_of(kMost - left_, blocks));
  }

 private:
  static constexpr uint32_t kNotDrawn = kMost + 1;

  uint32_t left_ = kNotDrawn;
};

// How many blocks of a size are counted ahead at most. They are in use, for all that the heap
// knows, so they are few bytes.
inline constexpr uint32_t most_ahead(size_t block_size) {
  constexpr size_t kMostBytes = 8 * kKiB;
  constexpr size_t kMostBlocks = 64;
  return static_cast<uint32_t>(min_of(kMostBytes / block_size, kMostBlocks));
}

}  // namespace near
