// Tells ThreadSanitizer that a thread hands memory on to others, in programs that run under it.
//
// This library is not instrumented, so the runtime sees neither its locks nor its atomic
// operations. It would take the last access to a block of near_malloc before its free and the first
// access after another thread's malloc for a race. One object orders all of them: more than the
// library promises, and only where blocks change threads, which fast paths do not do.
// Invariant: nothing is told before the process has threads, because the runtime may not have
// started; nor while fork holds all locks; nor in a child of fork before it has a thread: the
// runtime holds its own locks until the last handler of the fork has ended.
// Thread-safety: any thread that the program created; the purge thread, which the runtime does not
// know, stays away (heap/purge_thread.cc).
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "sync/inside.h"

extern "C" {
void __tsan_acquire(void* object) __attribute__((weak));
void __tsan_release(void* object) __attribute__((weak));
extern char near_single_threaded asm("__libc_single_threaded") __attribute__((weak));
}

namespace near {

inline constinit NEAR_HIDDEN char handed_on = 0;
extern NEAR_HIDDEN Atomic<bool> is_new_child;
// The runtime starts the thread and has not finished, or does not know it.
extern NEAR_HIDDEN __thread bool is_unknown_to_tsan NEAR_TLS_INITIAL_EXEC;

// True in a process that has the runtime, unless this code is instrumented itself.
NEAR_INLINE bool is_under_tsan() {
  return NEAR_TSAN == 0 && !kModel && &__tsan_acquire != nullptr && &__tsan_release != nullptr;
}

NEAR_INLINE bool tells_tsan() {
  if (likely(!is_under_tsan()) || holds_all() || is_unknown_to_tsan) return false;
  if (is_new_child.load(kRelaxed)) return false;  // relaxed: fork and pthread_create order it
  return &near_single_threaded == nullptr || near_single_threaded == 0;
}

// Called after the thread has taken what others gave.
NEAR_INLINE void tell_taken() {
  if (unlikely(tells_tsan())) __tsan_acquire(&handed_on);
}

// Called before others can take what the thread gives.
NEAR_INLINE void tell_given() {
  if (unlikely(tells_tsan())) __tsan_release(&handed_on);
}

}  // namespace near
