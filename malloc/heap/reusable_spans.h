// The cold spans of a heap, by class: those with enough free blocks to allocate from again, and the
// others.
//
// `reusable` spans of a class are in one of two lists: of those to allocate from first, and of
// those whose free pages were given back (`swept`), which come last because they cost page faults.
//
// The others are `spent`. Those of a crowded class are in a list, too. No event tells how many of
// their blocks are free, so a heap without a reusable span looks at some of them before it takes
// memory. The span that became cold first comes first: where blocks are freed at random, it has
// most. Such a span costs a slow path when it is allocated from again, and none before. A heap that
// grows has only full spans, so looks that find nothing make the next ones fewer; but the more
// spans wait, the more are looked at, or an old part that stays full would hide the others.
// Invariant: a cold span is reusable, or spent if its class is crowded; never both. Guard: the lock
// of the heap. docs/decisions/0021-memory-of-any-size.md
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/list.h"
#include "heap/event_clock.h"
#include "span/layout.h"

namespace near {

class ReusableSpans {
 public:
  // Adds a span, or moves it back from the swept ones. `now`: the heap's clock of events.
  void file(Span& span, EventClock::Time now) {
    if (span.swept) swept_[span.size_class].remove(&span);
    if (span.spent) remove_spent(span);
    span.reusable = true;
    span.swept = false;
    span.filed_when = now;
    unswept_of_[span.size_class].push_front(&span);
    if (is_purgeable(span)) unswept_++;
  }

  // Adds a span with few free blocks.
  void file_spent(Span& span) {
    span.spent = true;
    spent_[span.size_class].push_back(&span);
    spent_count_[span.size_class]++;
  }

  // Returns a spent span of a crowded class that is worth a try; it stays in its list. Those that
  // it passes over come last. Null if it finds none.
  Span* find_spent(unsigned size_class) {
    List<Span>& spent = spent_[size_class];
    uint8_t& tries = tries_[size_class];
    const size_t least = min_of(kLeastTries + spent_count_[size_class] / 256, kMostTries);
    const Span* const last = spent.back();
    for (unsigned i = 0; Span* span = spent.front(); i++) {
      if (is_worth_a_try(span)) {
        tries = kMostTries;
        return span;
      }
      if (i >= max_of(tries, least)) break;
      spent.remove(span);
      spent.push_back(span);
      if (span == last) return nullptr;
    }
    tries /= 2;
    return nullptr;
  }

  // The spent span that became cold last, if it is worth a try; else null.
  Span* newest_spent(unsigned size_class) const {
    Span* newest = spent_[size_class].back();
    return is_worth_a_try(newest) ? newest : nullptr;
  }

  // True if the oldest or the newest spent span of the class is worth a try.
  bool offers_spent(unsigned size_class) const {
    return is_worth_a_try(spent_[size_class].front()) || newest_spent(size_class) != nullptr;
  }

  // Takes a span out, if it is here.
  void unfile(Span& span) {
    if (span.spent) return remove_spent(span);
    if (span.reusable) {
      (span.swept ? swept_ : unswept_of_)[span.size_class].remove(&span);
      if (is_purgeable(span) && !span.swept) unswept_--;
    }
    if (span.sparse) sparse_--;
    span.reusable = span.sparse = span.swept = false;
  }

  // Returns the span to allocate from next: the one filed last. Swept spans come only if there is
  // no other. Null if there is none.
  Span* first(unsigned size_class) const {
    Span* span = unswept_of_[size_class].front();
    return span == nullptr && size_class < kPagedClasses ? swept_[size_class].front() : span;
  }

  // Counts a span that became half free or more.
  void mark_sparse(Span& span) {
    span.sparse = true;
    sparse_++;
  }

  // Makes the span of a class that was filed first a swept one, if it has been here for `events`,
  // and returns it. Each call starts with another class and tries a few; null if none of them has
  // such a span, or if recent looks at them found too few pages.
  Span* sweep_next(EventClock::Time now, EventClock::Time events) {
    for (unsigned i = 0; i < kSweepTries; i++) {
      sweep_class_ = (sweep_class_ + 1) % kPagedClasses;
      int32_t& worth = worth_[sweep_class_];
      if (worth < 0) {
        worth += kWorthOfTurn;
        continue;
      }
      Span* span = unswept_of_[sweep_class_].back();
      if (span == nullptr || EventClock::since(now, span->filed_when) < events) continue;
      mark_swept(*span);
      return span;
    }
    return nullptr;
  }

  // Makes a reusable span of a paged class a swept one: its free pages were given back.
  void mark_swept(Span& span) {
    unswept_of_[span.size_class].remove(&span);
    swept_[span.size_class].push_front(&span);
    span.swept = true;
    unswept_--;
  }

  // Moves the last span of a list to its front, and returns it; null if the list is empty. As many
  // turns as it has spans leave it as it was. Only paged classes have swept spans.
  Span* turn(unsigned size_class, bool swept) {
    List<Span>& list = (swept ? swept_ : unswept_of_)[size_class];
    Span* span = list.back();
    if (span == nullptr) return nullptr;
    list.remove(span);
    list.push_front(span);
    return span;
  }

  // A look for free pages in a span of the class walked so many blocks and found so many pages. Few
  // blocks for each page make the next look at this class come soon.
  void count_look(unsigned size_class, uint32_t blocks, uint32_t pages) {
    int32_t& worth = worth_[size_class];
    const size_t page = max_of(kWorthOfPage, 2 * kPageSize / kSizeClasses[size_class].size);
    worth += static_cast<int32_t>(page * pages) - static_cast<int32_t>(blocks);
    if (worth > kMostWorth) worth = kMostWorth;
  }

  bool any_unswept() const { return unswept_ > 0; }
  uint32_t sparse() const { return sparse_; }

 private:
  void remove_spent(Span& span) {
    spent_[span.size_class].remove(&span);
    spent_count_[span.size_class]--;
    span.spent = false;
  }

  static bool is_worth_a_try(const Span* span) {
    return span != nullptr && span->shape().is_worth_a_try(span->frees.freed());
  }

  static constexpr unsigned kSweepTries = 8;
  static constexpr uint8_t kLeastTries = 4;
  static constexpr uint8_t kMostTries = 64;
  // In blocks that a look walks: what a page is worth at least, and what a turn of a class adds.
  // More than 16 small blocks fill a page, so finding one takes a longer walk.
  static constexpr uint32_t kWorthOfPage = 32;
  static constexpr int32_t kWorthOfTurn = 4;
  static constexpr int32_t kMostWorth = 4096;

  List<Span> unswept_of_[kClasses];    // by class; the span filed last comes first
  List<Span> swept_[kPagedClasses];    // likewise
  List<Span> spent_[kCrowdedClasses];  // by class; the span that waits longest comes first
  uint32_t spent_count_[kCrowdedClasses] = {};
  uint8_t tries_[kCrowdedClasses] = {};  // how many spent spans to pass over
  uint32_t unswept_ = 0;                 // not swept, with blocks smaller than a page
  uint32_t sparse_ = 0;                  // half free or more
  unsigned sweep_class_ = 0;             // the class of the last sweep
  int32_t worth_[kPagedClasses] = {};    // what its last looks found, less what they cost; at most
                                         // kMostWorth
};

}  // namespace near
