// QSBR: a thread says when it holds no pointer, and announces nothing when it pins. Uses the clock,
// the words and the scan of epoch.hpp.
//
//   present  the announcement is an epoch from the thread's arrival to its departure
//   report   the thread holds no pointer: announce the present epoch, if it is a new one
//   away     the announcement is 0, as that of a DEBRA thread outside of a pin; the thread arrives
//            as one pins under DEBRA: announce, fence, look whether it is still the epoch
//   scan     as under DEBRA: an announcement of an older epoch is an obstacle
//
// Invariant: while a thread is present with announcement e, epoch <= e + 1, as in epoch.hpp. A
// report needs no fence and no second look at the epoch: until a scan finds the new announcement it
// finds the older one, which holds the epoch as well.
// An object retired under announcement e was unlinked while epoch <= e + 1, so as in epoch.hpp it
// is safe at epoch e + 3.
// A thread that waits for others leaves, reads the epoch as s, and waits for s + 3. What it waits
// for was unlinked before some thread left, reported or retired that was present with e <= s; so a
// thread that saw it has announced at most e + 1, and another epoch, or none, at s + 3. The same
// holds for sections, whose announcements have no fence either. Under DEBRA two epochs suffice, as
// a pin has a fence: there s is at least what such a thread announced.
// Both sides have full fences, never membarrier: only scans and arrivals execute one.
// Thread-safety: only a thread itself writes its words. [Hart07]
#pragma once

#include "nearmalloc/reclaim/impl/epoch.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"

namespace near::reclaim::impl {

// Epochs that a thread that waits for others has to see begin; and where all announcements have a
// fence.
inline constexpr uint64_t kEpochsToWait = kGrace;
inline constexpr uint64_t kEpochsToWaitForPins = 2;

// Requires that the thread is present and holds no pointer. True: there is a new epoch; it is
// announced, and noted in `seen`.
template <class Record>
bool report_quiescent(const EpochClock& clock, EpochWords<Record>& words) {
  const uint64_t epoch = clock.epoch.load(kAcquire);  // pairs: epoch-clock
  if (epoch == words.seen) return false;
  words.announced.store(epoch << 1 | 1, kRelease);  // pairs: epoch-announce
  words.seen = epoch;
  return true;
}

}  // namespace near::reclaim::impl
