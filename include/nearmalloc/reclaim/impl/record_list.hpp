// The list of a domain's records: it grows at its head and never shrinks.
//
// Invariant: a thread that finds a record finds it complete, and every record added before it.
// Thread-safety: any thread may add; `next` is constant from then on.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim::impl {

// After so many epochs or rounds, what was retired before is safe, whichever thread retired it.
inline constexpr uint64_t kGrace = 3;

template <class Record>
void add_record(Atomic<Record*>& head, Record& record) {
  Record* first = head.load(kRelaxed);  // relaxed: the exchange checks it
  do {
    record.next = first;
    // Acquires too: a thread that has a record may go on to those added before. pairs: records
  } while (!head.compare_exchange_weak(first, &record, kAcqRel, kRelaxed));
}

}  // namespace near::reclaim::impl
