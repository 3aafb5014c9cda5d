// Whether the calling thread is inside the allocator: it holds a lock, or is about to, or something
// that it works on is out of its place.
//
// A signal handler may fork, whatever it interrupted (POSIX.1-2008), and a crash handler does. If
// the handler interrupted its own thread inside, a lock that fork waits for would never come:
// fork leaves all locks alone then, and the slow paths that are entered from inside get their
// memory elsewhere (front/emergency.h). The child is left alone until the interrupted call ends:
// then every lock is free and everything is in its place, as after any other fork.
// docs/decisions/0014-helper-thread-and-fork.md
// Invariant: the depth rises before the first lock is tried and falls after the last is released.
// Thread-safety: the calling thread; every function here is async-signal-safe.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

// The low bits count; the two highest are marks. The thread holds every lock, for fork:
inline constexpr uint8_t kHoldsAll = 0x80;
// It is the only thread of a child of fork, and was inside: it may hold what it waits for.
inline constexpr uint8_t kLeftAlone = 0x40;
extern NEAR_HIDDEN __thread uint8_t inside_depth NEAR_TLS_INITIAL_EXEC;

// Puts everything in its place in such a child, before the mark goes. Set before the first fork.
extern NEAR_HIDDEN void (*repair_child)();

// The thread that was left alone is outside: repairs the child and takes the mark away.
NEAR_COLD void end_left_alone();

// What is written after it is written after it for a signal handler, too. Models have fibers, no
// threads and no signals.
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

// For what is out of its place between two locks.
class Inside {
 public:
  Inside() { go_inside(); }
  ~Inside() { go_outside(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace near
