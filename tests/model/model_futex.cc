// The kernel's futex in a model: compares the newest value and sleeps in one step. A thread that is
// never woken is a deadlock, which Relacy reports. Threads also wake without reason, as on Linux.
#include "platform/futex.h"

namespace near {

void futex_wait(Atomic<uint32_t>& word, uint32_t value) {
  word.load(kRelaxed);  // relaxed: others may run before the kernel looks
  if (word.newest() == value || mutated("the kernel does not look before it sleeps")) {
    word.sleep(false);
  }
}

// A wait whose time never ends is a wait without a limit.
void futex_wait_for(Atomic<uint32_t>& word, uint32_t value, uint32_t milliseconds) {
  word.load(kRelaxed);  // relaxed: as above
  if (word.newest() == value || mutated("the kernel does not look before it sleeps")) {
    word.sleep(milliseconds != UINT32_MAX);
  }
}

void futex_wake(Atomic<uint32_t>& word, int sleepers) {
  word.load(kRelaxed);  // relaxed: others may run before the kernel wakes
  if (!mutated("nobody is woken")) word.wake(sleepers);
}

}  // namespace near
