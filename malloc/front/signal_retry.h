// A handler of a signal that finds its thread inside the allocator sends itself the signal again
// soon, by a timer.
//
// timer_ = { the process that made the timer : 32 | the kernel's number of the timer : 32 }: one
// word, because a child of fork inherits the word and not the timer, and several of its threads may
// see that at once. One timer of each is then left over, unused.
// Thread-safety: any thread, also in a handler. System calls, because the C library's functions may
// allocate.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

class SignalRetry {
 public:
  // Makes the timer for this process. False if the system refuses.
  bool make(int signal);
  // Sends the signal to this process in a millisecond. False if the system refuses.
  bool soon(int signal);

 private:
  Atomic<uint64_t> timer_{0};
};

}  // namespace near
