// How the lower layers tell the purge thread that there is something to do, and how it is told to
// end. The thread itself is heap/purge_thread.cc.
//
// Invariant: what was asked before the purge thread sleeps is found by it or wakes it, and so does
// the order to end: it sleeps neither in `pause` nor in `wait` once `stop` has returned.
// Thread-safety: any thread; starting and stopping is serialised by heap/purge_thread.cc.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/futex.h"

namespace near {

class PurgeSignal {
 public:
  // True while a purge thread runs: then memory decays by itself, and more of it may be kept
  // meanwhile.
  bool present() const { return present_.load(kRelaxed); }  // relaxed: a hint for policy
  void set_present(bool present) { present_.store(present, kRelaxed); }  // relaxed: as above

  // Something became dirty (under a lock that the thread takes) or pending (in an Inbox). Costs a
  // load while the thread is awake or absent. Of push then load here, and exchange then look there,
  // one sees the other: all four are in one order.
  void ask() {
    if (!present() || work_.load(kSeqCst) != 0) return;          // pairs: purge-signal
    if (work_.exchange(1, kRelease) == 0) futex_wake(work_, 1);  // pairs: purge-signal
  }

  // Before a purge thread starts; nobody sleeps here. Also in the child of a fork.
  void reset() {
    work_.store(0, kRelaxed);  // relaxed: the thread is created after it
    stop_.store(0, kRelaxed);  // relaxed: as above
  }

  // The purge thread shall end, wherever it is. If it forgets the request, it takes what was stored
  // before; else it finds the request when it would sleep.
  void stop() {
    stop_.store(1, kRelease);  // pairs: purge-stop
    futex_wake(stop_, 1);
    work_.exchange(1, kRelease);  // pairs: purge-signal
    futex_wake(work_, 1);
  }

  // The purge thread, between two pieces of work, and after begin_round.
  bool stopping() const { return stop_.load(kAcquire) != 0; }  // pairs: purge-stop

  // The purge thread: lets time pass, unless it shall end.
  void pause(uint32_t milliseconds) { futex_wait_for(stop_, 0, milliseconds); }

  // The purge thread: forgets what was asked, before it looks for work.
  void begin_round() { work_.exchange(0, kSeqCst); }  // pairs: purge-signal

  // The purge thread: sleeps until asked, or for at most `milliseconds` (0: without limit).
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

extern NEAR_HIDDEN PurgeSignal purge_signal;

}  // namespace near
