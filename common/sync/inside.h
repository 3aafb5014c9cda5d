// Whether the calling thread is inside the allocator: it holds a lock, or is about to take one, or
// has withdrawn something that it works on from its list.
//
// A signal handler may fork, whatever it interrupted (POSIX.1-2008), and crash handlers do. If the
// handler interrupted its own thread inside the allocator, fork could wait for a lock for ever. So
// fork then takes no locks, and slow paths that are entered from inside get their memory elsewhere
// (front/emergency.h). The child stays in this state ("left alone") until the interrupted call
// ends; then every lock is released and all structures are repaired, as after any other fork.
// docs/decisions/0014-helper-thread-and-fork.md
// Invariant: the depth rises before the first lock is tried and falls after the last is released.
// Thread-safety: each thread has its own depth; every function here is async-signal-safe.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

// The low bits of inside_depth count; the two highest are marks. kHoldsAll: the thread holds every
// lock, for fork.
inline constexpr uint8_t kHoldsAll = 0x80;
// The thread is the only one of a child of fork, and forked inside: it may hold a lock that it
// waits for.
inline constexpr uint8_t kLeftAlone = 0x40;
extern NEAR_HIDDEN __thread uint8_t inside_depth NEAR_TLS_INITIAL_EXEC;

// Repairs all structures in such a child before the mark is removed. Set before the first fork.
extern NEAR_HIDDEN void (*repair_child)();

// Called when the thread that was left alone is outside: repairs the child and removes the mark.
NEAR_COLD void end_left_alone();

// Keeps program order for the signal handlers of this thread: it stops the compiler, not the CPU.
// The functions below do nothing in models, which have fibers and no signals.
NEAR_INLINE void order_for_handlers() { asm volatile("" ::: "memory"); }

NEAR_INLINE bool holds_all() { return !kModel && (inside_depth & kHoldsAll) != 0; }

NEAR_INLINE bool is_left_alone() { return !kModel && (inside_depth & kLeftAlone) != 0; }

NEAR_INLINE bool is_inside() { return !kModel && (inside_depth & ~(kHoldsAll | kLeftAlone)) != 0; }

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
  if (unlikely(inside_depth == kLeftAlone)) end_left_alone();
}

// Marks a scope in which something is withdrawn from its list while no lock is held.
class Inside {
 public:
  Inside() { go_inside(); }
  ~Inside() { go_outside(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace near
