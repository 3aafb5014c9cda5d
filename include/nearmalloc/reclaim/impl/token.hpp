// Token EBR's ring: the token goes from thread to thread. A thread that passed it on and receives
// it again knows that every operation that ran at the pass has ended.
//
//   word = { round : 40 | index : 24 }   where the token is. It goes along the list of records; at
//                                        the end it returns to the head, and the round grows by 1.
//                                        Rounds wrap after weeks, so they are compared by their
//                                        difference. A value of the word recurs after 2^40 rounds;
//                                        no thread works with one that long.
//   pin    active = 1, light fence, look whether the token is here
//   unpin  active = 0
//   pass   compare-and-swap from the word received to the next attached record
//   skip   any thread may move the token past a thread that is between two operations: it reads the
//          word, executes a heavy fence, then finds active == 0
//
// Invariant: between a thread's pass and its next receipt, every other attached record was either
// passed by its owner at the start of an operation, or skipped by a thread that read the word after
// that pass and then looked at the record. So no operation that ran at the pass runs at the
// receipt, and what was retired before the pass can be freed; two bags suffice. (A thread that is
// skipped at a receipt has not passed: the skipping thread may have looked at others long before.)
// A thread that attaches executes a heavy fence before its first operation: it is in the ring of
// every later pass, or it sees whatever was unlinked before.
// Thread-safety: only a thread itself writes its words. [Kim23 §3.4; Tam06]
#pragma once

#include <cstdint>
#include <optional>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr unsigned kTokenBags = 2;

// The states of a record's `attached`. kClaimed lasts for a moment: some thread takes what the last
// owner left in the record.
inline constexpr uint32_t kFree = 0;
inline constexpr uint32_t kAttached = 1;
inline constexpr uint32_t kClaimed = 2;
inline constexpr uint32_t kOffline = 3;  // its thread is in an offline_scope

struct TokenWords {
  Atomic<uint32_t> active{0};  // in an operation
  // Only the owner uses the rest.
  uint64_t passes = kTokenBags;  // by the owner; skips do not count
  uint64_t stuck_at = 0;         // the word when the owner last looked for the token
  uint32_t looks = 0;            // since the word changed
  uint32_t countdown = 1;        // operations until the next look
  uint32_t interval = 1;         // what the countdown began with
};

// Begins an operation: a thread that would skip this one sees that, or this thread sees whatever
// was unlinked before.
inline void activate(TokenWords& words, bool asymmetric) {
  words.active.store(1, kRelaxed);  // relaxed: says nothing of what was before
  light_fence(asymmetric);
}

// Called by the thread itself and its handlers.
inline bool is_activated(const TokenWords& words) {
  return words.active.load(kRelaxed) != 0;  // relaxed: the thread's own
}

inline void deactivate(TokenWords& words) {
  words.active.store(0, kRelease);  // pairs: token-active
}

class TokenRing {
 public:
  static constexpr unsigned kIndexBits = 24;
  static constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;

  explicit TokenRing(uint64_t first_round = 1) : word_(first_round << kIndexBits) {}

  static uint64_t round_of(uint64_t word) { return word >> kIndexBits; }

  // Whether `now` is at least `distance` rounds after `then`. `distance` is below half of all
  // rounds; `then` may also be later than `now`.
  static bool has_passed(uint64_t now, uint64_t then, uint64_t distance) {
    const auto ahead = static_cast<int64_t>((now - then) << kIndexBits) >> kIndexBits;
    return ahead >= static_cast<int64_t>(distance);
  }

  // The word if the token is at record `index`.
  std::optional<uint64_t> at(uint32_t index) const {
    const uint64_t word = word_.load(kAcquire);  // pairs: token
    return (word & kIndexMask) == index ? std::optional(word) : std::nullopt;
  }
  uint64_t word() const { return word_.load(kAcquire); }  // pairs: token
  uint64_t round() const { return round_of(word()); }

  // Passes the token on from `me`, which received it as `word`. Returns the new word; empty if `me`
  // was skipped.
  template <class Record>
  std::optional<uint64_t> pass(const Atomic<Record*>& head, Record& me, uint64_t word,
                               bool asymmetric) {
    light_fence(asymmetric);  // an attached thread is seen, or sees what was unlinked before
    Position<Record> position{&me, round_of(word)};
    step(head, position);
    return move(word, position);
  }

  // Whether the record at the token has no thread: the token arrived while the thread left, or
  // there was no other thread.
  template <class Record>
  bool is_left(const Atomic<Record*>& head) const {
    const Record* holder = find(head, word() & kIndexMask);
    // relaxed: a hint; the thread that moves the token looks again
    return holder != nullptr && holder->attached.load(kRelaxed) != kAttached;
  }

  // Moves the token past threads between operations, up to `me` or one that is active. Returns the
  // record that holds the token if that is active, else null.
  template <class Record>
  Record* skip_idle(const Atomic<Record*>& head, Record& me, bool asymmetric) {
    const uint64_t word = word_.load(kAcquire);  // pairs: token
    Position<Record> position{find(head, word & kIndexMask), round_of(word)};
    Record* holder = position.record;
    if (holder == &me || holder == nullptr) return nullptr;
    // relaxed: avoids the fence if the holder is active; if not, the loop looks again
    if (holder->token.active.load(kRelaxed) != 0) return holder;
    heavy_fence(asymmetric);
    while (position.record != &me && !is_active(*position.record)) step(head, position);
    if (position.record == holder) return holder;
    (void)move(word, position);  // fails if another thread moved it
    return nullptr;
  }

 private:
  template <class Record>
  struct Position {
    Record* record;
    uint64_t round;
  };

  template <class Record>
  static bool is_active(const Record& record) {
    return record.token.active.load(kAcquire) != 0;  // pairs: token-active
  }

  // Null if the record already has its index but is not in the list yet.
  template <class Record>
  static Record* find(const Atomic<Record*>& head, uint64_t index) {
    Record* record = head.load(kAcquire);  // pairs: records
    while (record != nullptr && record->index != index) record = record->next;
    return record;
  }

  // Goes to the next attached record; there is one, as the caller is attached.
  template <class Record>
  static void step(const Atomic<Record*>& head, Position<Record>& position) {
    do {
      position.record = position.record->next;
      if (position.record == nullptr) {
        position.record = head.load(kAcquire);  // pairs: records
        position.round++;
      }
    } while (position.record->attached.load(kAcquire) != kAttached);  // pairs: attached
  }

  template <class Record>
  std::optional<uint64_t> move(uint64_t from, const Position<Record>& to) {
    const uint64_t wanted = to.round << kIndexBits | to.record->index;
    // The thread that moves it acquired it before. pairs: token
    if (word_.compare_exchange_strong(from, wanted, kRelease, kRelaxed)) return wanted;
    return std::nullopt;
  }

  Atomic<uint64_t> word_;
};

}  // namespace near::reclaim::impl
