// The epoch of a span: the state it is in, and how often the state has changed.
//
//   word = { hot | free | reusable | floating : 4 | changes : 60 }      zero: expected
//
//   expected ─► hot ─► floating ─► reusable ─► free      also reusable ─► hot, floating ─► free,
//               ▲                                │       and reusable ─► floating when its thread
//               └────────────────────────────────┘       ends
//
// Invariant: no word comes twice, so whoever read the word, decided, and then changes it by
// try_mark knows that nothing happened in between: while a span is neither hot nor free its blocks
// are only freed, so what its free lists counted then still holds. Hot is left by the owner alone,
// free by whoever took the span out of the pool.
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

  // After a free: whoever freed looks here behind its free, the owner at the free lists behind
  // mark_floating, and in the one order of these four one of the two sees the other's.
  Word read() const { return word_.load(kSeqCst); }  // pairs: scalloc-epoch

  bool is_hot_for_owner() const {
    // relaxed: the owner made it hot, and nobody else ends that
    return (word_.load(kRelaxed) & static_cast<Word>(State::hot)) != 0;
  }

  // For statistics, which may be stale.
  State state() const { return state_of(word_.load(kRelaxed)); }  // relaxed: as said

  bool try_mark(State to, Word old) {
    return word_.compare_exchange_strong(old, next(to, old), kSeqCst,
                                         kRelaxed);  // pairs: scalloc-epoch
  }

  // By whoever has the span alone, hence without a rival: out of the pool; out of hot.
  void mark_hot() { mark(State::hot); }
  void mark_floating() { mark(State::floating); }

 private:
  static constexpr Word kChanges = (Word{1} << 60) - 1;

  static constexpr Word next(State to, Word old) {
    return ((old + 1) & kChanges) | static_cast<Word>(to);
  }
  void mark(State to) {
    const Word old = word_.load(kRelaxed);   // relaxed: nobody else changes it now
    word_.exchange(next(to, old), kSeqCst);  // pairs: scalloc-epoch
  }

  Atomic<Word> word_{0};
};

}  // namespace near::design::scalloc
