// Futexes, sleeping, clocks, and the other calls of syscall().
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <iterator>

#include "runtime/calls.h"
#include "runtime/clock.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

// --- futexes: results as of the kernel, -errno for an error ---

long futex_wait(const uint32_t* address, uint32_t value, Time deadline, const void* site) {
  access(address, 4, Access::kRead, site);
  if (*address != value) {
    charge("futex wait, another value", machine().system_call);
    return -EAGAIN;
  }
  charge("futex wait", machine().futex_wait);
  // A word that holds 2 is, by convention, a lock that is taken and waited for.
  constexpr uint32_t kContended = 2;
  const bool is_lock = value == kContended && deadline == kForever;
  const Time begin = now();
  const bool in_time = wait(address, Wait::kFutex, deadline, site);
  if (is_lock) count_lock(address, "futex lock", now() - begin, site);
  return in_time ? 0 : -ETIMEDOUT;
}

long futex_wake(const uint32_t* word, unsigned count) {
  order();
  const unsigned woken = wake(word, count);
  charge("futex wake", woken == 0 ? machine().system_call : machine().futex_wake);
  return woken;
}

long futex_requeue(const uint32_t* word, unsigned count, unsigned move, const uint32_t* other,
                   bool compare, uint32_t value, const void* site) {
  access(word, 4, Access::kRead, site);
  if (compare && *word != value) return -EAGAIN;
  const unsigned woken = wake(word, count);
  const unsigned moved = requeue(word, move, other);
  charge("futex requeue", machine().futex_wake);
  return woken + (compare ? moved : 0);
}

// The encoded operation of FUTEX_WAKE_OP, see futex(2).
long futex_wake_operation(const uint32_t* word, unsigned count, unsigned other_count,
                          uint32_t* other, uint32_t encoded, const void* site) {
  const uint32_t operation = encoded >> 28 & 7, compare = encoded >> 24 & 15;
  uint32_t operand = encoded >> 12 & 0xfff;
  if ((encoded >> 28 & 8) != 0) operand = uint32_t{1} << operand % 32;
  access(other, 4, Access::kUpdate, site);
  const uint32_t before = *other;
  const uint32_t after[] = {operand, before + operand, before | operand, before & ~operand,
                            before ^ operand};
  if (operation < std::size(after)) *other = after[operation];
  const auto a = static_cast<int32_t>(before), b = static_cast<int32_t>(encoded & 0xfff);
  const bool holds[] = {a == b, a != b, a < b, a <= b, a > b, a >= b};
  unsigned woken = wake(word, count);
  if (compare < std::size(holds) && holds[compare]) woken += wake(other, other_count);
  charge("futex wake", machine().futex_wake);
  return woken;
}

Time futex_deadline(int operation, const timespec* time) {
  if (time == nullptr) return kForever;
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT) return now() + duration(*time);
  const bool real_time = (operation & FUTEX_CLOCK_REALTIME) != 0;
  return deadline_of(real_time ? CLOCK_REALTIME : CLOCK_MONOTONIC, time);
}

long futex(const long (&a)[6], const void* site) {
  auto* const word = reinterpret_cast<uint32_t*>(a[0]);
  auto* const other = reinterpret_cast<uint32_t*>(a[4]);
  const auto operation = static_cast<int>(a[1]);
  const auto value = static_cast<uint32_t>(a[2]), third = static_cast<uint32_t>(a[5]);
  const auto* const time = reinterpret_cast<const timespec*>(a[3]);
  const auto count = static_cast<unsigned>(a[3]);
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      if (!is_valid(time)) return -EINVAL;
      order();
      return futex_wait(word, value, futex_deadline(operation, time), site);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return futex_wake(word, value);
    case FUTEX_REQUEUE:
      return futex_requeue(word, value, count, other, false, 0, site);
    case FUTEX_CMP_REQUEUE:
      return futex_requeue(word, value, count, other, true, third, site);
    case FUTEX_WAKE_OP:
      return futex_wake_operation(word, value, count, other, third, site);
    default:
      return -ENOSYS;
  }
}

long membarrier(long command) {
  if (command == MEMBARRIER_CMD_QUERY) {
    return MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |
           MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED;
  }
  order();
  charge("membarrier", pages().barrier(caller()));
  return 0;
}

// --- sleeping ---

int sleep_until(Time deadline, const void* site) {
  order();
  spend(machine().futex_wait);
  if (deadline > now()) wait(nullptr, Wait::kSleep, deadline, site);
  return 0;
}

void show(clockid_t clock, timespec* time) {
  constexpr Time kReading = 20 * kNanosecond;
  if (simulated) spend(kReading);
  *time = timespec_of(now());
  if (clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID) {
    time->tv_sec += static_cast<time_t>(start_of(clock));
  }
}

}  // namespace

NEAR_INTERPOSED int nanosleep(const timespec* time, timespec*) {
  if (!is_valid(time)) return static_cast<int>(answer(-EINVAL));
  return sleep_until(now() + duration(*time), NEAR_SITE);
}
NEAR_INTERPOSED int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec*) {
  if (!is_valid(time)) return EINVAL;
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  return sleep_until(absolute ? deadline_of(clock, time) : now() + duration(*time), NEAR_SITE);
}
NEAR_INTERPOSED int usleep(useconds_t microseconds) {
  return sleep_until(now() + microseconds * 1000 * kNanosecond, NEAR_SITE);
}
NEAR_INTERPOSED unsigned sleep(unsigned seconds) {
  sleep_until(now() + Time{seconds} * 1'000'000'000 * kNanosecond, NEAR_SITE);
  return 0;
}
NEAR_INTERPOSED int sched_yield() noexcept {
  if (!simulated) return 0;
  charge("sched_yield", machine().system_call);
  yield();
  return 0;
}

// --- clocks ---

NEAR_INTERPOSED int clock_gettime(clockid_t clock, timespec* time) noexcept {
  show(clock, time);
  return 0;
}
NEAR_INTERPOSED int timespec_get(timespec* time, int base) noexcept {
  show(CLOCK_REALTIME, time);
  return base;
}
NEAR_INTERPOSED int gettimeofday(timeval* time, void*) noexcept {
  timespec shown{};
  show(CLOCK_REALTIME, &shown);
  *time = {shown.tv_sec, shown.tv_nsec / 1000};
  return 0;
}
NEAR_INTERPOSED time_t time(time_t* into) noexcept {
  timespec shown{};
  show(CLOCK_REALTIME, &shown);
  if (into != nullptr) *into = shown.tv_sec;
  return shown.tv_sec;
}
NEAR_INTERPOSED clock_t clock() noexcept {
  return static_cast<clock_t>(now() / (1000 * kNanosecond));
}

// --- random numbers ---

namespace {

long random_bytes(void* into, size_t bytes) {
  auto* const to = static_cast<unsigned char*>(into);
  for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(random_number());
  charge("getrandom", machine().system_call);
  return static_cast<long>(bytes);
}

}  // namespace

NEAR_INTERPOSED ssize_t getrandom(void* into, size_t bytes, unsigned) {
  return random_bytes(into, bytes);
}
NEAR_INTERPOSED int getentropy(void* into, size_t bytes) {
  random_bytes(into, bytes);
  return 0;
}

// --- syscall() ---

namespace {

// Whether the call is simulated; then `result` is the kernel's.
bool simulated_call(long number, const long (&a)[6], long& result, const void* site) {
  switch (number) {
    case SYS_futex:
      result = futex(a, site);
      return true;
    case SYS_membarrier:
      result = membarrier(a[0]);
      return true;
    case SYS_getrandom:
      result = random_bytes(reinterpret_cast<void*>(a[0]), static_cast<size_t>(a[1]));
      return true;
    case SYS_rseq:
      result = -ENOSYS;
      return true;
    default:
      return simulated_mapping(number, a, result) || simulated_identity(number, a, result);
  }
}

}  // namespace

NEAR_INTERPOSED long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  long result = 0;
  if (!simulated) return answer(host_call(number, a[0], a[1], a[2], a[3], a[4], a[5]));
  if (!simulated_call(number, a, result, NEAR_SITE)) {
    charge("other calls", machine().system_call);
    result = host_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  return answer(result);
}

}  // namespace near::manycore
