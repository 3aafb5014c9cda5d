// The life of a design: its start, its threads, forks, its end.
//
// A thread enters at its first allocation and leaves in the last round of its thread-local
// destructors. What it asks for afterwards is served in short stays: it enters, is served, and
// leaves again.
// Invariant: thread_enter and thread_exit of the design alternate in each thread.
// Who may touch it: the calling thread.
#pragma once

#include "base/compiler.h"

namespace near::design {

// Effect: the design has started. False if it cannot.
bool start();

NEAR_COLD bool enter_thread();
NEAR_COLD void leave_if_over();

// A scope in which the calling thread, which had no state, has one.
//   if (state == nullptr) { const Stay stay; return stay ? allocate(size) : nullptr; }
class Stay {
 public:
  Stay() : entered_(enter_thread()) {}
  ~Stay() {
    if (entered_) leave_if_over();
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

}  // namespace near::design
