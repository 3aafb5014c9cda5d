// Mutexes, read-write locks, spin locks, condition variables, barriers, semaphores, once.
//
// The state of each object is in its own bytes, with glibc's layout where static initialisers exist,
// so that its cache line is the real one. Each operation is an atomic access to that line.
// Invariant: between an access and the end of an operation, or its wait, no other fiber runs.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>

#include "runtime/clock.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

int owner_id() { return static_cast<int>(id_of(current())) + 1; }

// Waits for `key` while `busy()`; each try is an access. Returns 0 or ETIMEDOUT.
template <typename Busy>
int acquire(const void* key, const char* kind, uint32_t& waiters, Time deadline, const void* site,
            Busy busy) {
  access(key, 4, Access::kUpdate, site);
  const Time begin = now();
  while (busy()) {
    spend(machine().futex_wait);
    ++waiters;
    const bool in_time = wait(key, Wait::kLock, deadline, site);
    --waiters;
    if (!in_time) return ETIMEDOUT;
    access(key, 4, Access::kUpdate, site);
  }
  count_lock(key, kind, now() - begin, site);
  return 0;
}

void wake_waiters(const void* key, uint32_t waiters, unsigned count) {
  if (waiters == 0) return;
  spend(machine().futex_wake);
  wake(key, count);
}

// --- mutexes ---

using Mutex = __pthread_mutex_s;
constexpr int kKind = 3;

// What a recursive or an error-checking mutex does when its owner locks it; -1: the lock goes on.
int relock(Mutex& mutex) {
  if (mutex.__lock == 0 || mutex.__owner != owner_id()) return -1;
  if ((mutex.__kind & kKind) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
  if ((mutex.__kind & kKind) != PTHREAD_MUTEX_RECURSIVE) return -1;
  ++mutex.__count;
  return 0;
}

int lock(Mutex& mutex, Time deadline, const void* site) {
  if (const int known = relock(mutex); known >= 0) return known;
  const int error = acquire(&mutex, "mutex", mutex.__nusers, deadline, site,
                            [&] { return mutex.__lock != 0; });
  if (error != 0) return error;
  mutex.__lock = 1;
  mutex.__owner = owner_id();
  mutex.__count = 1;
  return 0;
}

void release(Mutex& mutex) {
  mutex.__lock = 0;
  mutex.__owner = 0;
  wake_waiters(&mutex, mutex.__nusers, 1);
}

bool is_wrong_owner(const Mutex& mutex) {
  return (mutex.__kind & kKind) != PTHREAD_MUTEX_NORMAL &&
         (mutex.__kind & kKind) != PTHREAD_MUTEX_ADAPTIVE_NP && mutex.__owner != owner_id();
}

Mutex& of(pthread_mutex_t* mutex) { return mutex->__data; }

}  // namespace

NEAR_INTERPOSED int pthread_mutex_init(pthread_mutex_t* mutex,
                                       const pthread_mutexattr_t* attributes) {
  int kind = PTHREAD_MUTEX_NORMAL;
  if (attributes != nullptr) pthread_mutexattr_gettype(attributes, &kind);
  of(mutex) = {};
  of(mutex).__kind = kind;
  return 0;
}
NEAR_INTERPOSED int pthread_mutex_destroy(pthread_mutex_t*) { return 0; }
NEAR_INTERPOSED int pthread_mutex_lock(pthread_mutex_t* mutex) {
  return simulated ? lock(of(mutex), kForever, NEAR_SITE) : 0;
}
NEAR_INTERPOSED int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* time) {
  return lock(of(mutex), deadline_of(CLOCK_REALTIME, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                            const timespec* time) {
  return lock(of(mutex), deadline_of(clock, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  if (!simulated) return 0;
  access(mutex, 4, Access::kUpdate, NEAR_SITE);
  if (const int known = relock(of(mutex)); known == 0) return 0;
  return of(mutex).__lock != 0 ? EBUSY : lock(of(mutex), kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  if (!simulated) return 0;
  if (is_wrong_owner(of(mutex))) return EPERM;
  if (--of(mutex).__count != 0 && (of(mutex).__kind & kKind) == PTHREAD_MUTEX_RECURSIVE) return 0;
  access(mutex, 4, Access::kUpdate, NEAR_SITE);
  release(of(mutex));
  return 0;
}

// --- spin locks: one word, 0 is free ---

NEAR_INTERPOSED int pthread_spin_init(pthread_spinlock_t* lock, int) {
  *lock = 0;
  return 0;
}
NEAR_INTERPOSED int pthread_spin_destroy(pthread_spinlock_t*) { return 0; }
NEAR_INTERPOSED int pthread_spin_trylock(pthread_spinlock_t* lock) {
  access(const_cast<const int*>(lock), 4, Access::kUpdate, NEAR_SITE);
  if (*lock != 0) return EBUSY;
  *lock = 1;
  return 0;
}
NEAR_INTERPOSED int pthread_spin_lock(pthread_spinlock_t* lock) {
  const auto* const word = const_cast<const int*>(lock);
  access(word, 4, Access::kUpdate, NEAR_SITE);
  while (*lock != 0) access(word, 4, Access::kRead, NEAR_SITE);
  *lock = 1;
  return 0;
}
NEAR_INTERPOSED int pthread_spin_unlock(pthread_spinlock_t* lock) {
  access(const_cast<const int*>(lock), 4, Access::kWrite, NEAR_SITE);
  *lock = 0;
  return 0;
}

// --- read-write locks ---

namespace {

struct ReadWriteLock {  // in the bytes of a pthread_rwlock_t, whose initialiser is zero
  uint32_t readers;
  uint32_t writer;  // 0, or its owner_id()
  uint32_t waiting_readers, waiting_writers;
};
static_assert(sizeof(ReadWriteLock) <= sizeof(pthread_rwlock_t));
ReadWriteLock& of(pthread_rwlock_t* lock) { return *reinterpret_cast<ReadWriteLock*>(lock); }

int lock_shared(pthread_rwlock_t* lock, Time deadline, const void* site) {
  ReadWriteLock& state = of(lock);
  if (state.writer == static_cast<uint32_t>(owner_id())) return EDEADLK;
  const int error = acquire(&state.readers, "rwlock, shared", state.waiting_readers, deadline, site,
                            [&] { return state.writer != 0; });
  if (error == 0) ++state.readers;
  return error;
}

int lock_exclusively(pthread_rwlock_t* lock, Time deadline, const void* site) {
  ReadWriteLock& state = of(lock);
  if (state.writer == static_cast<uint32_t>(owner_id())) return EDEADLK;
  const int error = acquire(&state.writer, "rwlock", state.waiting_writers, deadline, site,
                            [&] { return state.writer != 0 || state.readers != 0; });
  if (error == 0) state.writer = static_cast<uint32_t>(owner_id());
  return error;
}

}  // namespace

NEAR_INTERPOSED int pthread_rwlock_init(pthread_rwlock_t* lock, const pthread_rwlockattr_t*) {
  of(lock) = {};
  return 0;
}
NEAR_INTERPOSED int pthread_rwlock_destroy(pthread_rwlock_t*) { return 0; }
NEAR_INTERPOSED int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  return lock_shared(lock, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  return lock_exclusively(lock, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* time) {
  return lock_shared(lock, deadline_of(CLOCK_REALTIME, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* time) {
  return lock_exclusively(lock, deadline_of(CLOCK_REALTIME, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) {
  access(lock, 4, Access::kUpdate, NEAR_SITE);
  return of(lock).writer != 0 ? EBUSY : lock_shared(lock, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) {
  access(lock, 4, Access::kUpdate, NEAR_SITE);
  const bool busy = of(lock).writer != 0 || of(lock).readers != 0;
  return busy ? EBUSY : lock_exclusively(lock, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_rwlock_unlock(pthread_rwlock_t* lock) {
  access(lock, 4, Access::kUpdate, NEAR_SITE);
  ReadWriteLock& state = of(lock);
  if (state.writer != 0) {
    state.writer = 0;
  } else if (state.readers != 0) {
    --state.readers;
  } else {
    return EPERM;
  }
  if (state.readers != 0) return 0;
  wake_waiters(&state.readers, state.waiting_readers, ~0U);
  wake_waiters(&state.writer, state.waiting_writers, 1);
  return 0;
}

// --- condition variables ---

namespace {

struct Condition {  // in the bytes of a pthread_cond_t, whose initialiser is zero
  uint32_t waiters;
  clockid_t clock;
};
Condition& of(pthread_cond_t* condition) { return *reinterpret_cast<Condition*>(condition); }

int wait_for(pthread_cond_t* condition, pthread_mutex_t* mutex, Time deadline, const void* site) {
  if (is_wrong_owner(of(mutex))) return EPERM;
  access(condition, 4, Access::kUpdate, site);
  access(mutex, 4, Access::kUpdate, site);
  const unsigned depth = of(mutex).__count;
  ++of(condition).waiters;
  release(of(mutex));
  spend(machine().futex_wait);
  const bool in_time = wait(condition, Wait::kCondition, deadline, site);
  --of(condition).waiters;
  lock(of(mutex), kForever, site);
  of(mutex).__count = depth;
  return in_time ? 0 : ETIMEDOUT;
}

}  // namespace

NEAR_INTERPOSED int pthread_cond_init(pthread_cond_t* condition,
                                      const pthread_condattr_t* attributes) {
  of(condition) = {};
  if (attributes != nullptr) pthread_condattr_getclock(attributes, &of(condition).clock);
  return 0;
}
NEAR_INTERPOSED int pthread_cond_destroy(pthread_cond_t*) { return 0; }
NEAR_INTERPOSED int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return wait_for(condition, mutex, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                           const timespec* time) {
  if (!is_valid(time)) return EINVAL;
  return wait_for(condition, mutex, deadline_of(of(condition).clock, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                           clockid_t clock, const timespec* time) {
  if (!is_valid(time)) return EINVAL;
  return wait_for(condition, mutex, deadline_of(clock, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_cond_signal(pthread_cond_t* condition) {
  access(condition, 4, Access::kUpdate, NEAR_SITE);
  wake_waiters(condition, of(condition).waiters, 1);
  return 0;
}
NEAR_INTERPOSED int pthread_cond_broadcast(pthread_cond_t* condition) {
  access(condition, 4, Access::kUpdate, NEAR_SITE);
  wake_waiters(condition, of(condition).waiters, ~0U);
  return 0;
}

// --- barriers ---

namespace {

struct Barrier {
  uint32_t threads, arrived, round;
};
Barrier& of(pthread_barrier_t* barrier) { return *reinterpret_cast<Barrier*>(barrier); }

}  // namespace

NEAR_INTERPOSED int pthread_barrier_init(pthread_barrier_t* barrier, const pthread_barrierattr_t*,
                                         unsigned threads) {
  if (threads == 0) return EINVAL;
  of(barrier) = {threads, 0, 0};
  return 0;
}
NEAR_INTERPOSED int pthread_barrier_destroy(pthread_barrier_t*) { return 0; }
NEAR_INTERPOSED int pthread_barrier_wait(pthread_barrier_t* barrier) {
  access(barrier, 4, Access::kUpdate, NEAR_SITE);
  Barrier& state = of(barrier);
  if (++state.arrived == state.threads) {
    state.arrived = 0;
    ++state.round;
    wake_waiters(barrier, state.threads - 1, ~0U);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  spend(machine().futex_wait);
  for (const uint32_t round = state.round; state.round == round;) {
    wait(barrier, Wait::kBarrier, kForever, NEAR_SITE);
  }
  access(barrier, 4, Access::kRead, NEAR_SITE);
  return 0;
}

// --- semaphores ---

namespace {

struct Semaphore {
  uint32_t value, waiters;
};
Semaphore& of(sem_t* semaphore) { return *reinterpret_cast<Semaphore*>(semaphore); }

int fail_with(int error) {
  errno = error;
  return -1;
}

int take(sem_t* semaphore, Time deadline, const void* site) {
  Semaphore& state = of(semaphore);
  const int error = acquire(semaphore, "semaphore", state.waiters, deadline, site,
                            [&] { return state.value == 0; });
  if (error != 0) return fail_with(error);
  --state.value;
  return 0;
}

}  // namespace

NEAR_INTERPOSED int sem_init(sem_t* semaphore, int, unsigned value) {
  if (value > INT_MAX) return fail_with(EINVAL);
  of(semaphore) = {value, 0};
  return 0;
}
NEAR_INTERPOSED int sem_destroy(sem_t*) { return 0; }
NEAR_INTERPOSED int sem_wait(sem_t* semaphore) { return take(semaphore, kForever, NEAR_SITE); }
NEAR_INTERPOSED int sem_timedwait(sem_t* semaphore, const timespec* time) {
  return take(semaphore, deadline_of(CLOCK_REALTIME, time), NEAR_SITE);
}
NEAR_INTERPOSED int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* time) {
  return take(semaphore, deadline_of(clock, time), NEAR_SITE);
}
NEAR_INTERPOSED int sem_trywait(sem_t* semaphore) {
  access(semaphore, 4, Access::kUpdate, NEAR_SITE);
  if (of(semaphore).value == 0) return fail_with(EAGAIN);
  --of(semaphore).value;
  return 0;
}
NEAR_INTERPOSED int sem_post(sem_t* semaphore) {
  access(semaphore, 4, Access::kUpdate, NEAR_SITE);
  ++of(semaphore).value;
  wake_waiters(semaphore, of(semaphore).waiters, 1);
  return 0;
}
NEAR_INTERPOSED int sem_getvalue(sem_t* semaphore, int* value) {
  access(semaphore, 4, Access::kRead, NEAR_SITE);
  *value = static_cast<int>(of(semaphore).value);
  return 0;
}

// --- once: 0 new, 1 running, 2 done, as in glibc ---

NEAR_INTERPOSED int pthread_once(pthread_once_t* once, void (*function)()) {
  access(once, 4, Access::kRead, NEAR_SITE);
  while (*once == 1) {
    wait(once, Wait::kLock, kForever, NEAR_SITE);
    access(once, 4, Access::kRead, NEAR_SITE);
  }
  if (*once == 2) return 0;
  *once = 1;
  function();
  access(once, 4, Access::kWrite, NEAR_SITE);
  *once = 2;
  wake(once, ~0U);
  return 0;
}

}  // namespace near::manycore
