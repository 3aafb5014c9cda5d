// The life of a design: its start, its threads, forks, its end.
//
// A thread enters at its first allocation and leaves in the last round of its thread-local
// destructors. What it asks for afterwards is served in short stays: it enters, is served, and
// leaves again. So are the first frees of a thread that has allocated nothing yet: they may come
// after its last destructors, when nothing would tell it to leave. One that goes on freeing enters.
// Invariant: thread_enter and thread_exit of the design alternate in each thread.
// Thread-safety: the calling thread.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace near::design {

// Effect: the design has started. False if it cannot.
bool start();

// What a thread without state comes for.
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
