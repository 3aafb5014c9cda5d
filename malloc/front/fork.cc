#include "front/fork.h"

#include <pthread.h>

#include "front/profile.h"
#include "front/thread.h"
#include "heap/purge_thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "profile/profiler.h"
#include "sync/tsan.h"

// glibc's fork calls these functions around the locks of its malloc; glibc exports them for other
// allocators. They are weak because other C libraries do not have them.
extern "C" {
void _IO_list_lock() __attribute__((weak));
void _IO_list_unlock() __attribute__((weak));
void _IO_list_resetlock() __attribute__((weak));
}

namespace near {
namespace {

bool holds_streams = false;  // guard: the lock of the list of streams

// Locks the list of streams. Does nothing in a process with one thread: no other thread can hold
// the lock, and a signal handler that forks could wait for its own thread.
void lock_streams() {
  if (&near_single_threaded != nullptr && near_single_threaded != 0) return;
  if (&_IO_list_lock == nullptr) return;
  _IO_list_lock();
  holds_streams = true;
}

void unlock_streams(bool in_child) {
  if (!holds_streams) return;
  holds_streams = false;
  if (in_child) {
    _IO_list_resetlock();
  } else {
    _IO_list_unlock();
  }
}

void before_fork() {
  const bool nested = thread_record.forks++ > 0;
  if (nested || is_inside()) return;
  lock_streams();
  go_inside();
  start_lock.lock_for_fork();
  lock_purge_thread();
  profile::lock_for_fork();
  lock_heaps();
  lock_memory();
  inside_depth |= kHoldsAll;
  go_outside();
}

// True if the locks must be released now: the outermost fork of this thread took them.
bool ends_holding() {
  thread_record.forks--;
  if (thread_record.forks > 0 || !holds_all()) return false;
  go_inside();
  inside_depth &= static_cast<uint8_t>(~kHoldsAll);
  return true;
}

void after_fork_in_parent() {
  if (!ends_holding()) return;
  unlock_memory();
  unlock_heaps();
  profile::unlock_for_fork();
  unlock_purge_thread();
  start_lock.unlock_for_fork();
  go_outside();
  unlock_streams(false);
}

// Releases every lock in a child when its thread is outside, and recovers what other threads held.
void end_child() {
  unlock_memory_in_child();
  unlock_heaps_in_child(has_heap() ? current_heap : nullptr);
  profile::unlock_for_fork();
  unlock_purge_thread();
  start_lock.unlock_for_fork();
}

// The child of a fork in a handler that interrupted the allocator: later, when the interrupted call
// ends.
void repair_late() {
  end_child();
  forget_profile_writers();
  profile::stop_keeping();  // the file is the parent's
}

void after_fork_in_child() {
  is_new_child.store(true, std::memory_order_relaxed);  // relaxed: one thread lives
  const bool whole = ends_holding();
  forget_purge_thread(thread_record.counted ? 1 : 0);
  if (!whole) {
    inside_depth |= kLeftAlone;
    return;
  }
  end_child();
  go_outside();
  keep_profile_of_child();
  unlock_streams(true);
}

}  // namespace

void handle_forks() {
  static constinit Atomic<bool> done{false};
  if (done.exchange(true, kRelaxed)) return;  // relaxed: publishes nothing
  repair_child = repair_late;
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace near
