// The life of a design: its start, its threads, forks, its end.
//
// A thread enters at its first allocation and leaves in the last round of thread-specific
// destructors that it asks for (life.cc). Each later request is served in a short stay: the thread
// enters, is served, and leaves again. The first frees of a thread that has not allocated yet are
// served the same way: they may come after its last destructors, when nothing would make it leave.
// A thread that goes on freeing enters.
// Invariant: thread_enter and thread_exit of the design alternate in each thread.
// Thread-safety: every function acts on the calling thread only.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace near::design {

// Effect: the design has started. False if it cannot start.
bool start();

// Why a thread without state calls.
enum class Errand : uint8_t { allocate, free };

NEAR_COLD bool enter_thread(Errand errand);
NEAR_COLD void leave_if_visiting();

// A scope in which the calling thread, which had no state, has one.
//   if (state == nullptr) { const Stay stay; return stay ? allocate(size) : nullptr; }
class Stay {
 public:
  explicit Stay(Errand errand = Errand::allocate) : entered_(enter_thread(errand)) {}
  ~Stay() {
    if (entered_) leave_if_visiting();
  }
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

}  // namespace near::design
