// Token EBR's ring: the token goes from thread to thread; who receives it after having passed it on
// knows that everyone began a new operation since.
//
//   word = { round : 40 | index : 24 }   where the token is: it goes along the list of records, and
//                                        from its end to its head, a round further. Rounds wrap
//                                        after weeks: they are compared by their difference, and a
//                                        value of the word comes back after 2^40 rounds, for which
//                                        no look at it lasts
//   pin    active = 1, light fence, look whether the token is here
//   unpin  active = 0
//   pass   compare-and-swap from the word received to the next attached record
//   skip   whoever wants to go on may move the token past a thread that is between two operations:
//          a heavy fence after the word was read, then active == 0
//
// Invariant: between a pass of a thread and its next receipt, every other attached record was
// passed by its owner at the begin of an operation, or skipped, by somebody who read the word after
// that pass, and looked at the record then: no operation that ran at the pass runs at the receipt.
// So what was retired before the pass can be freed at the receipt; two bags suffice. (A thread that
// is skipped at a receipt has not passed: whoever skips it may have looked at others long before.)
// Who attaches executes a heavy fence before its first operation: it is in the ring of every pass
// that comes after, or sees whatever was unlinked before.
// Who may touch it: the words of a thread are written by that thread alone. [Kim23 §3.4; Tam06]
#pragma once

#include <cstdint>
#include <optional>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr unsigned kTokenBags = 2;

// What a record's `attached` says: it belongs to nobody, to a thread, or for a moment to somebody
// who takes what a thread left in it.
inline constexpr uint32_t kFree = 0;
inline constexpr uint32_t kAttached = 1;
inline constexpr uint32_t kClaimed = 2;
inline constexpr uint32_t kOffline = 3;  // its thread is away

struct TokenWords {
  Atomic<uint32_t> active{0};  // in an operation
  // The owner's.
  uint64_t passes = kTokenBags;  // that were its own
  uint64_t stuck_at = 0;         // the word at the last look from afar
  uint32_t looks = 0;            // since it moved
  uint32_t countdown = 1;        // operations until the next look
  uint32_t interval = 1;         // what the countdown began with
};

// An operation begins: who skips this thread sees it, or it sees whatever was unlinked before.
inline void activate(TokenWords& words, bool asymmetric) {
  words.active.store(1, kRelaxed);  // relaxed: says nothing of what was before
  light_fence(asymmetric);
}

// For the thread itself and its handlers.
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

  // Whether `now` is `distance` rounds after `then`, or more: below half of all rounds, and `then`
  // may also be later.
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

  // Passes the token on from `me`, where it was at `word`. The word now; none: `me` was skipped.
  template <class Record>
  std::optional<uint64_t> pass(const Atomic<Record*>& head, Record& me, uint64_t word,
                               bool asymmetric) {
    light_fence(asymmetric);  // who attached before is seen, or sees what was unlinked before
    Position<Record> position{&me, round_of(word)};
    step(head, position);
    return move(word, position);
  }

  // Whether the token is where no thread is: it arrived while one left, or there was no other.
  template <class Record>
  bool is_left(const Atomic<Record*>& head) const {
    const Record* holder = find(head, word() & kIndexMask);
    // relaxed: a hint, looked at again by whoever moves the token
    return holder != nullptr && holder->attached.load(kRelaxed) != kAttached;
  }

  // Moves the token past threads between operations, up to `me` or one that is active. The record
  // that holds it if that is active; else null.
  template <class Record>
  Record* skip_idle(const Atomic<Record*>& head, Record& me, bool asymmetric) {
    const uint64_t word = word_.load(kAcquire);  // pairs: token
    Position<Record> position{find(head, word & kIndexMask), round_of(word)};
    Record* holder = position.record;
    if (holder == &me || holder == nullptr) return nullptr;
    // relaxed: it spares the fence where the thread is at work; one that is not is looked at again
    if (holder->token.active.load(kRelaxed) != 0) return holder;
    heavy_fence(asymmetric);
    while (position.record != &me && !is_active(*position.record)) step(head, position);
    if (position.record == holder) return holder;
    (void)move(word, position);  // or somebody else moved it
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

  // Null if the record has its number and is not in the list yet.
  template <class Record>
  static Record* find(const Atomic<Record*>& head, uint64_t index) {
    Record* record = head.load(kAcquire);  // pairs: records
    while (record != nullptr && record->index != index) record = record->next;
    return record;
  }

  // To the next attached record; the caller is attached, so there is one.
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
    // Whoever moves it acquired it before. pairs: token
    if (word_.compare_exchange_strong(from, wanted, kRelease, kRelaxed)) return wanted;
    return std::nullopt;
  }

  Atomic<uint64_t> word_;
};

}  // namespace near::reclaim::impl
