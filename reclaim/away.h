// As long as an `Away` lives, a thread that waits for others keeps none of them waiting: under QSBR
// all its records are away. It has no effect under other schemes.
//
// A record whose handle the thread has given away is among them until another thread adopts it:
// then that thread brings it back, and this one leaves it alone. impl/owner_word.hpp says how.
//
// Invariant: while two threads wait, neither is present, so that neither waits for the other.
// Thread-safety: only the thread itself.
#pragma once

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"

namespace near::reclaim::impl {

// Calls f for each attached record of the calling thread, and holds the record meanwhile.
template <class F>
void for_each_own(const Core& core, F f) noexcept {
  const int32_t mine = own_thread();
  // pairs: records
  for (Record* record = core.records.load(kAcquire); record != nullptr; record = record->next) {
    // relaxed: an owner's own; looked at again, for the owner may be another thread by then
    if (record->attached.load(kRelaxed) != kAttached || !record->owner.try_hold(mine)) continue;
    if (record->attached.load(kRelaxed) == kAttached) f(*record);  // relaxed: this thread's own
    record->owner.release(mine);
  }
}

class Away {
 public:
  // Requires that the thread holds no pointer, through any of its records.
  Away(const Core& core, Record& me) noexcept;
  ~Away();
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;

  // Withdraws what handlers announced meanwhile.
  static void let_go_all(const Core& core, Record& me) noexcept;

 private:
  const Core& core_;
  Record& me_;
  uint32_t before_ = 0;  // the stay of `me_`; the thread's other records are outside
};

}  // namespace near::reclaim::impl
