// The word by which a domain's background thread sleeps, is woken and is ended.
//
//   none      there is no such thread
//   at_work   it reclaims, or rests for a moment: a thread that has work for it changes nothing
//   asleep    it sleeps on the word: a thread that has work for it changes the word and wakes it
//   stopping  it ends after the round that it is in
// Invariant: the thread sleeps only after it changed at_work to asleep, and the kernel compares the
// word again; so neither a wake nor a stop is lost. Only the thread that stops it leaves stopping.
// Thread-safety: begin, stop and end: one thread at a time; rest and sleep: the background thread;
// the rest: any thread.
#pragma once

#include <cstdint>

#include "platform/futex.h"

namespace near::reclaim::impl {

class ReclaimerWord {
 public:
  explicit ReclaimerWord(Atomic<uint32_t>& word) : word_(word) {}

  // False: there is a background thread.
  bool begin() noexcept { return change(kNone, kAtWork); }
  void end() noexcept { word_.store(kNone, kRelaxed); }  // relaxed: see thread-safety

  void stop() noexcept {
    word_.exchange(kStopping, kRelease);  // pairs: reclaimer
    futex_wake(word_, 1);
  }
  bool is_stopping() const noexcept {
    return word_.load(kAcquire) == kStopping;  // pairs: reclaimer
  }

  // Waits for the time, or until the thread is stopped.
  void rest(uint32_t milliseconds) noexcept { futex_wait_for(word_, kAtWork, milliseconds); }
  // The same, or until it is woken. False: the time passed.
  bool sleep(uint32_t milliseconds) noexcept {
    if (!change(kAtWork, kAsleep)) return true;  // stopping
    futex_wait_for(word_, kAsleep, milliseconds);
    return !change(kAsleep, kAtWork);
  }
  bool is_asleep() const noexcept {
    return word_.load(kRelaxed) == kAsleep;  // relaxed: a hint, as the thread wakes by itself, too
  }
  void wake() noexcept {
    if (is_asleep() && change(kAsleep, kAtWork)) futex_wake(word_, 1);
  }

 private:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kAtWork = 1;
  static constexpr uint32_t kAsleep = 2;
  static constexpr uint32_t kStopping = 3;

  bool change(uint32_t from, uint32_t to) noexcept {
    // relaxed: is_stopping, which the thread calls next, acquires
    return word_.compare_exchange_strong(from, to, kRelease, kRelaxed);  // pairs: reclaimer
  }

  Atomic<uint32_t>& word_;
};

}  // namespace near::reclaim::impl
