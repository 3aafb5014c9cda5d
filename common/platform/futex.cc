#include "platform/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "platform/saved_errno.h"

namespace near {

void futex_wait(Atomic<uint32_t>& word, uint32_t value) {
  const SavedErrno saved;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void futex_wait_for(Atomic<uint32_t>& word, uint32_t value, uint32_t milliseconds) {
  const SavedErrno saved;
  const struct timespec timeout{static_cast<time_t>(milliseconds / 1000),
                                static_cast<long>(milliseconds % 1000) * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &timeout, nullptr, 0);
}

void futex_wake(Atomic<uint32_t>& word, int sleepers) {
  const SavedErrno saved;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, sleepers, nullptr, nullptr, 0);
}

// Moves no sleeper, but compares the word with the last argument first.
bool futex_reads_zero(uintptr_t word) {
  const SavedErrno saved;
  return syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, nullptr, word, 0) == 0;
}

}  // namespace near
