// The epoch of a span: its state, and how often the state has changed.
//
//   word = { hot | free | reusable | floating : 4 | changes : 60 }      zero: expected
//
//   expected ─► hot ─► floating ─► reusable ─► free      also reusable ─► hot, floating ─► free,
//               ▲                                │       and reusable ─► floating when its thread
//               └────────────────────────────────┘       ends
//
// Invariant: no word comes twice, so a thread that reads the word, decides, and then changes it by
// try_mark knows that the state did not change in between. While a span is neither hot nor free its
// blocks are only freed, so the counts of its free lists are still valid then. Only the owner ends
// hot; only the thread that took the span out of the pool ends free.
// Thread-safety: any thread. [Aigner15 §5, epoch encoding]
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near::design::scalloc {

enum class State : uint64_t {
  expected = 0,
  hot = uint64_t{1} << 63,
  free = uint64_t{1} << 62,
  reusable = uint64_t{1} << 61,
  floating = uint64_t{1} << 60,
};

class Epoch {
 public:
  using Word = uint64_t;

  static constexpr State state_of(Word word) { return static_cast<State>(word & ~kChanges); }

  // A thread that freed a block reads this after its push; the owner reads the free lists after
  // mark_floating. In the single order of these four, one of the two sees the other's change.
  Word read() const { return word_.load(kSeqCst); }  // pairs: scalloc-epoch

  bool is_hot_for_owner() const {
    // relaxed: the owner made it hot, and no other thread ends that
    return (word_.load(kRelaxed) & static_cast<Word>(State::hot)) != 0;
  }

  // For statistics, which may be stale.
  State state() const { return state_of(word_.load(kRelaxed)); }  // relaxed: may be stale

  bool try_mark(State to, Word old) {
    return word_.compare_exchange_strong(old, next(to, old), kSeqCst,
                                         kRelaxed);  // pairs: scalloc-epoch
  }

  // Called while no other thread changes the word: out of the pool; out of hot.
  void mark_hot() { mark(State::hot); }
  void mark_floating() { mark(State::floating); }

 private:
  static constexpr Word kChanges = (Word{1} << 60) - 1;

  static constexpr Word next(State to, Word old) {
    return ((old + 1) & kChanges) | static_cast<Word>(to);
  }
  void mark(State to) {
    const Word old = word_.load(kRelaxed);   // relaxed: no other thread changes it now
    word_.exchange(next(to, old), kSeqCst);  // pairs: scalloc-epoch
  }

  Atomic<Word> word_{0};
};

}  // namespace near::design::scalloc
