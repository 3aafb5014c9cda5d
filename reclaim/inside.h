// As long as an `Inside` lives, it tells signal handlers that the thread does the library's own
// work.
//
// Invariant: beyond the few steps of a pin, the owner's words of a record change only while the
// record's stay says that the owner is inside the library: then guards of handlers change nothing.
// Thread-safety: only the record's owner.
#pragma once

#include "nearmalloc/reclaim/impl/core.hpp"

namespace near::reclaim::impl {

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
