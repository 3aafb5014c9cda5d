// How the lower layers tell the purge thread that there is work, and how it is told to end. The
// thread itself is heap/purge_thread.cc.
//
// Invariant: no request is lost: the purge thread sees each one before it sleeps, or is woken by
// it. The same holds for the order to end: once `stop` has returned, the thread sleeps neither in
// `pause` nor in `wait`.
// Thread-safety: any thread; heap/purge_thread.cc serialises start and stop.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/futex.h"

namespace near {

// Aligned, because threads that free look at it: what others write lies in other cache lines.
class alignas(128) PurgeSignal {
 public:
  // True while a purge thread runs: it purges old memory, so the nodes may keep more meanwhile.
  bool present() const { return present_.load(kRelaxed); }  // relaxed: a hint for policy
  void set_present(bool present) { present_.store(present, kRelaxed); }  // relaxed: as above

  // Called after something became dirty or a part of a huge page may stay unused (both under a lock
  // that the purge thread takes), or something became pending (in an Inbox). Costs one load while
  // the thread is awake or absent. The caller pushes and then loads the flag; the purge thread
  // clears the flag and then looks at the inbox. All four are seq_cst, so at least one of the two
  // sees what the other did.
  void ask() {
    if (!present() || work_.load(kSeqCst) != 0) return;          // pairs: purge-signal
    if (work_.exchange(1, kRelease) == 0) futex_wake(work_, 1);  // pairs: purge-signal
  }

  // Called before a purge thread starts, when no thread sleeps here, and in the child of a fork.
  void reset() {
    work_.store(0, kRelaxed);  // relaxed: the thread is created after it
    stop_.store(0, kRelaxed);  // relaxed: as above
  }

  // Orders the purge thread to end, wherever it is. If begin_round clears this request, it also
  // acquires the store to stop_; if not, the request keeps `wait` from sleeping.
  void stop() {
    stop_.store(1, kRelease);  // pairs: purge-stop
    futex_wake(stop_, 1);
    work_.exchange(1, kRelease);  // pairs: purge-signal
    futex_wake(work_, 1);
  }

  // Called by the purge thread between two pieces of work, and after begin_round.
  bool stopping() const { return stop_.load(kAcquire) != 0; }  // pairs: purge-stop

  // Called by the purge thread: sleeps for that time, or until ordered to end.
  void pause(uint32_t milliseconds) { futex_wait_for(stop_, 0, milliseconds); }

  // Called by the purge thread before it looks for work: clears the request flag.
  void begin_round() { work_.exchange(0, kSeqCst); }  // pairs: purge-signal

  // Called by the purge thread: sleeps until a request, at most `milliseconds` (0: without limit).
  void wait(uint32_t milliseconds) {
    if (milliseconds == 0) {
      futex_wait(work_, 0);
    } else {
      futex_wait_for(work_, 0, milliseconds);
    }
  }

 private:
  Atomic<uint32_t> work_{0};
  Atomic<uint32_t> stop_{0};
  Atomic<bool> present_{false};
};

// A thread's sign that it keeps something for which the purge thread should come again, where no
// lock says so. The purge thread looks at the marks, and then at places that marked threads leave
// things in: a thread that left one and is not marked was seen to have left it, or asks.
// Invariant: a mark that the purge thread does not see is followed by a request that it sees.
// Thread-safety: `set` and `clear`: the owner, or the purge thread in its stead; `is_set`: any.
class PurgeMark {
 public:
  // Called before the owner keeps anything. Stores and then loads, as PurgeSignal::ask explains.
  void set(PurgeSignal& signal) {
    if (is_set()) return;
    set_.store(true, kSeqCst);  // pairs: purge-signal
    signal.ask();
  }
  void clear() { set_.store(false, kRelease); }       // pairs: purge-mark
  bool is_set() const { return set_.load(kSeqCst); }  // pairs: purge-signal, purge-mark

 private:
  Atomic<bool> set_{false};
};

extern NEAR_HIDDEN PurgeSignal purge_signal;

}  // namespace near
