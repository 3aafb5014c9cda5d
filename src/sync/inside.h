// Whether the calling thread is inside the allocator: it holds a lock, or is about to, or something
// that it works on is out of its place.
//
// A signal handler may fork, whatever it interrupted (POSIX.1-2008), and a crash handler does. If
// the handler interrupted its own thread inside, a lock that fork waits for would never come:
// fork leaves all locks alone then, and the slow paths that are entered from inside get their
// memory elsewhere (front/emergency.h). docs/decisions/0014-helper-thread-and-fork.md
// Invariant: the depth rises before the first lock is tried and falls after the last is released.
// Who may touch it: the calling thread; every function here is async-signal-safe.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

// The low bits count; the highest says that the thread holds every lock, for fork.
inline constexpr uint8_t kHoldsAll = 0x80;
extern NEAR_HIDDEN __thread uint8_t inside_depth NEAR_TLS_INITIAL_EXEC;

// True in a child of fork whose thread was inside: it may hold what it waits for.
extern NEAR_HIDDEN bool left_alone;

// What is written after it is written after it for a signal handler, too. Models have fibers, no
// threads and no signals.
NEAR_INLINE void order_for_handlers() { asm volatile("" ::: "memory"); }

NEAR_INLINE bool holds_all() { return !kModel && (inside_depth & kHoldsAll) != 0; }

NEAR_INLINE bool is_inside() { return !kModel && (inside_depth & ~kHoldsAll) != 0; }

// Returns holds_all().
NEAR_INLINE bool go_inside() {
  if (kModel) return false;
  inside_depth++;
  order_for_handlers();
  return holds_all();
}

NEAR_INLINE void go_outside() {
  if (kModel) return;
  order_for_handlers();
  inside_depth--;
}

// For what is out of its place between two locks.
class Inside {
 public:
  Inside() { go_inside(); }
  ~Inside() { go_outside(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace near
