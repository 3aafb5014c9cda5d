// As long as an `Away` lives, a thread that waits for others keeps none of them waiting: under QSBR
// all its records are away. It has no effect under other schemes.
//
// Invariant: while two threads wait, neither is present, so that neither waits for the other.
// Thread-safety: only the thread itself.
#pragma once

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"

namespace near::reclaim::impl {

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
