// How many of a span's blocks are free as far as its owner knows, kept as a countdown to the next
// number at which the owner must act (the event).
//
// Invariant: target - remaining is the number of free blocks, or, after `await`, the number freed
// since then. The two halves share a 32-bit word, so another thread reads a consistent pair with
// one load. `tick` of one block is on the fast path and must be one instruction.
// Thread-safety: only the owner writes; any thread reads. A reader that acquires a value sees the
// free-list writes of every free that the value counts.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

class FreeCount {
 public:
  static constexpr uint32_t kMaxRemaining = 0xffff;
  // The largest argument of `await`. It leaves room to count a batch of a whole span (4096 blocks)
  // that passes the event.
  static constexpr uint32_t kMaxAwaited = kMaxRemaining - 4096;

  // One more block is free. True when the countdown reaches zero: the caller takes its slow path.
  NEAR_INLINE bool tick() {
#if defined(__x86_64__) && !NEAR_TSAN && !defined(NEAR_MODEL)
    // A plain 16-bit decrement: x86 does not reorder stores, so it releases the writes before it.
    bool zero;
    asm volatile("decw %0" : "+m"(word_), "=@ccz"(zero) : : "memory");
    return zero;
#else
    const uint32_t word = word_.load(kRelaxed) - 1;  // relaxed: only the owner writes
    word_.store(word, kRelease);                     // pairs: free-count
    return (word & 0xffff) == 0;
#endif
  }

  // `frees` more blocks are free. True when the countdown reaches zero or would pass it: then the
  // target moves to the new count, so that remaining() is 0 and freed() counts them all.
  bool tick(uint32_t frees) {
    const uint32_t word = word_.load(kRelaxed);  // relaxed: only the owner writes
    const uint32_t left = word & 0xffff;
    const bool reached = frees >= left;
    const uint32_t freed = (word >> 16) - left + frees;
    word_.store(reached ? freed << 16 : word - frees, kRelease);  // pairs: free-count
    return reached;
  }

  // One block less is free: the inverse of `tick`, for classes that count the blocks handed out.
  void untick() {
    word_.store(word_.load(kRelaxed) + 1, kRelaxed);  // relaxed: only lowers what a reader believes
  }

  // Owner: `freed` blocks are free; the next event is at `target`. target - freed <= kMaxRemaining.
  void set(uint32_t freed, uint32_t target) {
    word_.store(target << 16 | (target - freed), kRelease);  // pairs: free-count
  }

  // Owner: the next event comes after `frees` more frees, however many blocks are free now (the
  // count of a hot span is unknown). freed() then counts from here. 0 < frees <= kMaxAwaited.
  void await(uint32_t frees) {
    word_.store(frees << 16 | frees, kRelaxed);  // relaxed: read by the owner alone
  }

  uint32_t freed() const {
    const uint32_t word = word_.load(kAcquire);  // pairs: free-count
    return (word >> 16) - (word & 0xffff);
  }
  // relaxed: called by the owner, or by a holder of the owner's lock
  uint32_t target() const { return word_.load(kRelaxed) >> 16; }
  uint32_t remaining() const { return word_.load(kRelaxed) & 0xffff; }

 private:
  // target in the high half, remaining in the low one (little-endian: at offset 0)
  Atomic<uint32_t> word_;
};

}  // namespace near
