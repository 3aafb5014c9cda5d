// The reusable spans of one size class of a LAB: a deque under a lock.
//
// Invariant while the lock is free: a span is in the set <=> it is reusable and its owner is the
// set's. So every change into or out of `reusable` happens under this lock, together with the
// change of the deque: no other thread can free and pool a span that is marked and not yet in it.
// A closed set has no owner and no spans.
// Thread-safety: any thread; open, close and take the owner. [Aigner15 §5, listings 2 and 3]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/list.h"
#include "designs/scalloc/epoch.h"
#include "designs/shared/ranks.h"
#include "sync/mutex.h"

namespace near::design::scalloc {

// `Span` has `epoch`, and `next` and `prev` for the deque.
template <typename Span>
class ReusableSet {
 public:
  enum class Put { done, closed, changed };

  void open(uint64_t owner) {
    const LockGuard guard(lock_);
    owner_ = owner;
  }

  // From now on `put` adds no span.
  void close() { open(kNobody); }

  // Marks the span reusable and puts it in front, if the epoch is still `old` and the set still
  // belongs to `owner`.
  Put put(uint64_t owner, Span& span, Epoch::Word old) {
    const LockGuard guard(lock_);
    if (owner_ != owner) return Put::closed;
    if (!span.epoch.try_mark(State::reusable, old)) return Put::changed;
    spans_.push_front(&span);
    return Put::done;
  }

  // Marks a reusable span free and removes it, if the epoch is still `old`: then no other thread
  // has the span.
  bool try_free(Span& span, Epoch::Word old) {
    const LockGuard guard(lock_);
    if (!span.epoch.try_mark(State::free, old)) return false;
    spans_.remove(&span);
    return true;
  }

  // Takes out the span that has been in the set longest and marks it `to`: hot for the owner,
  // floating when its thread ends. Null if there is none.
  Span* take(State to) {
    const LockGuard guard(lock_);
    Span* span = spans_.back();
    if (span != nullptr) take_out(*span, to);
    return span;
  }

  // Takes out a span for which `is_empty` holds and marks it free. Null if there is none.
  template <typename IsEmpty>
  Span* take_empty(IsEmpty is_empty) {
    const LockGuard guard(lock_);
    for (Span* span = spans_.front(); span != nullptr; span = span->next) {
      if (!is_empty(*span)) continue;
      take_out(*span, State::free);
      return span;
    }
    return nullptr;
  }

  void lock_for_fork() { lock_.lock_for_fork(); }
  void unlock_for_fork() { lock_.unlock_for_fork(); }

 private:
  static constexpr uint64_t kNobody = 0;

  void take_out(Span& span, State to) {
    spans_.remove(&span);
    span.epoch.try_mark(to, span.epoch.read());  // the lock keeps other threads out
  }

  Mutex lock_{kInnermostRank};
  uint64_t owner_ = kNobody;
  List<Span> spans_;
};

}  // namespace near::design::scalloc
