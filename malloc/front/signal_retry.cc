#include "front/signal_retry.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

// relaxed in this file: the word is all that there is

namespace near {

bool SignalRetry::make(int signal) {
  sigevent again{};
  again.sigev_notify = SIGEV_SIGNAL;
  again.sigev_signo = signal;
  int number = 0;
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &again, &number) != 0) return false;
  const auto process = static_cast<uint32_t>(getpid());
  timer_.store(uint64_t{process} << 32 | static_cast<uint32_t>(number), kRelaxed);
  return true;
}

bool SignalRetry::soon(int signal) {
  const bool is_own = timer_.load(kRelaxed) >> 32 == static_cast<uint32_t>(getpid());
  if (!is_own && !make(signal)) return false;
  itimerspec in_a_millisecond{};
  in_a_millisecond.it_value.tv_nsec = 1'000'000;
  const auto number = static_cast<int>(timer_.load(kRelaxed));
  return syscall(SYS_timer_settime, number, 0, &in_a_millisecond, nullptr) == 0;
}

}  // namespace near
