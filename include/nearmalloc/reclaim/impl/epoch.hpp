// DEBRA's epochs: they tell when no thread is left that could have seen an object.
//
//   pin      announce the epoch seen last, light fence, look whether it is still the epoch
//   unpin    announce quiescence
//   advance  read the epoch, heavy fence, then look at one record at a time; when each was found
//            quiescent or in the present epoch: epoch + 1
//
// Invariant: while a thread is pinned with announcement e, epoch <= e + 1. Proof: the scan that
// would make e + 2 begins with a fence after e + 1 was read. Either that fence comes after the
// light fence of the pin, and the scan finds the announcement; or it comes before, and the pin
// finds e + 1 and announces that.
// An object retired under announcement e was unlinked while epoch <= e + 1. So a thread that saw it
// has announced at most e + 1 (one that announces e + 2 acquired that from a scan that waited for
// the retiring thread), and has unpinned when epoch >= e + 3. Three bags suffice.
// [Brown15 DEBRA; Kim23 §2.1.1]
// Thread-safety: only a thread itself writes its words.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr uint64_t kFirstEpoch = 4;
inline constexpr unsigned kEpochBags = 3;

struct EpochClock {
  Atomic<uint64_t> epoch{kFirstEpoch};
  Atomic<uint64_t> fenced{0};  // a heavy fence followed the reading of this epoch
};

template <class Record>
struct EpochWords {
  Atomic<uint64_t> announced{0};  // 0: quiescent; else epoch << 1 | 1
  // Only the owner uses the rest.
  uint64_t seen = kFirstEpoch;  // announced last
  uint64_t scanning = 0;        // the epoch of the scan under way
  Record* cursor = nullptr;     // the record that the scan looks at next
};

// Announces `epoch`. True: it is still the epoch, and the thread is protected.
template <class Record>
bool announce(EpochClock& clock, EpochWords<Record>& words, uint64_t epoch, bool asymmetric) {
  words.announced.store(epoch << 1 | 1, kRelease);  // pairs: epoch-announce
  light_fence(asymmetric);
  // relaxed: if it equals what was acquired before, there is nothing new to acquire
  return clock.epoch.load(kRelaxed) == epoch;
}

// Announces the newest epoch, and returns it. Leaves the owner's words alone, so a signal handler
// may call it while the owner announces.
template <class Record>
uint64_t announce_newest(EpochClock& clock, EpochWords<Record>& words, bool asymmetric) {
  for (;;) {
    const uint64_t epoch = clock.epoch.load(kAcquire);  // pairs: epoch-clock
    if (announce(clock, words, epoch, asymmetric)) return epoch;
  }
}

// Pins. True: the epoch is the one seen last, and the thread is protected. False: call `settle`.
template <class Record>
bool announce_seen(EpochClock& clock, EpochWords<Record>& words, bool asymmetric) {
  return announce(clock, words, words.seen, asymmetric);
}

// Announces the newest epoch, and notes it in `seen`.
template <class Record>
void settle(EpochClock& clock, EpochWords<Record>& words, bool asymmetric) {
  words.seen = announce_newest(clock, words, asymmetric);
}

template <class Record>
void unannounce(EpochWords<Record>& words) {
  words.announced.store(0, kRelease);  // pairs: epoch-announce
}

enum class Scan : uint8_t {
  going,     // this record is no obstacle, there are more
  blocked,   // the record at the cursor is in an older epoch
  outdated,  // another thread advanced the epoch
  advanced
};

// Looks at one more record; the last one advances the epoch. `head` is the list of all records.
template <class Record>
Scan scan_step(EpochClock& clock, const Atomic<Record*>& head, EpochWords<Record>& words,
               bool asymmetric) {
  if (words.scanning != words.seen) {
    // relaxed: if it equals what was acquired before, there is nothing new to acquire
    if (clock.epoch.load(kRelaxed) != words.seen) return Scan::outdated;
    if (clock.fenced.load(kAcquire) < words.seen) {  // pairs: epoch-fenced
      heavy_fence(asymmetric);                       // pairs: epoch-fenced
      clock.fenced.store(words.seen, kRelaxed);      // relaxed: released by the fence
    }
    words.scanning = words.seen;
    words.cursor = head.load(kAcquire);  // pairs: records
  }
  if (words.cursor != nullptr) {
    const uint64_t announced =
        words.cursor->epoch.announced.load(kAcquire);  // pairs: epoch-announce
    if (announced != 0 && announced >> 1 != words.seen) return Scan::blocked;
    words.cursor = words.cursor->next;
    if (words.cursor != nullptr) return Scan::going;
  }
  words.scanning = 0;
  uint64_t expected = words.seen;
  // Releases what the scan acquired: a thread that acquires the new epoch comes after all that
  // ended.
  const bool advanced = clock.epoch.compare_exchange_strong(expected, expected + 1, kRelease,
                                                            kRelaxed);  // pairs: epoch-clock
  return advanced ? Scan::advanced : Scan::outdated;
}

}  // namespace near::reclaim::impl
