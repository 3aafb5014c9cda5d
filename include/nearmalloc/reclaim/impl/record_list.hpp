// The list of a domain's records: it grows at its head and never shrinks.
//
// Invariant: who finds a record finds it complete, and everything that was added before it.
// Who may touch it: any thread adds; `next` is constant from then on.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim::impl {

// Epochs or rounds after which whatever was retired before is safe, whichever thread retired it.
inline constexpr uint64_t kGrace = 3;

template <class Record>
void add_record(Atomic<Record*>& head, Record& record) {
  Record* first = head.load(kRelaxed);  // relaxed: the exchange checks it
  do {
    record.next = first;
    // Acquired too: whoever has a record may go on from it to those before. pairs: records
  } while (!head.compare_exchange_weak(first, &record, kAcqRel, kRelaxed));
}

}  // namespace near::reclaim::impl
