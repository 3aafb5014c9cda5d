// What signal handlers see of the library's own work: `Inside` as long as it lasts.
//
// Invariant: whoever changes the owner's words of a record, beyond the few steps of a pin, does so
// while the record's stay says that the owner is inside the library: guards of handlers touch
// nothing then.
// Who may touch it: the record's owner.
#pragma once

#include "nearmalloc/reclaim/impl/record.hpp"

namespace near::reclaim::impl {

// A thread that is not pinned withdraws the announcement that a handler left.
void let_go(Record& record) noexcept;

class Inside {
 public:
  explicit Inside(Record& record) noexcept
      : record_(record), before_(record.stay.enter_library()) {}
  ~Inside() {
    record_.stay.restore(before_);
    if (before_ == 0) let_go(record_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Record& record_;
  const uint32_t before_;
};

}  // namespace near::reclaim::impl
