// Threads: their start, end and attributes, thread-local data and its destructors, the exit of the
// process.
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <threads.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/clock.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

// --- thread-local data ---

struct Key {
  void (*destructor)(void*);
  uint64_t generation;  // odd: in use
};
Key keys[PerThread::kKeys];

bool is_used(pthread_key_t key) { return key < PerThread::kKeys && keys[key].generation % 2 == 1; }

PerThread::Value* values() {
  PerThread& mine = per_thread();
  if (mine.values == nullptr) {
    mine.values = static_cast<PerThread::Value*>(
        reserve(PerThread::kKeys * sizeof(PerThread::Value)));
  }
  return mine.values;
}

// Calls the destructors of the values once. Returns whether there were any.
bool destroy_values() {
  bool any = false;
  for (pthread_key_t key = 0; key < PerThread::kKeys; ++key) {
    PerThread::Value& value = values()[key];
    if (value.value == nullptr || value.generation != keys[key].generation) continue;
    void* const old = const_cast<void*>(std::exchange(value.value, nullptr));
    if (keys[key].destructor == nullptr) continue;
    any = true;
    keys[key].destructor(old);
  }
  return any;
}

void run_at_exit() {
  PerThread& mine = per_thread();
  while (PerThread::AtExit* const first = mine.at_exit) {
    mine.at_exit = first->next;
    first->function(first->object);
  }
}

}  // namespace

void run_thread_destructors() {
  run_at_exit();
  if (per_thread().values == nullptr) return;
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && destroy_values(); ++round) {
  }
}

NEAR_INTERPOSED int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  for (pthread_key_t i = 0; i < PerThread::kKeys; ++i) {
    if (is_used(i)) continue;
    keys[i].destructor = destructor;
    ++keys[i].generation;
    *key = i;
    return 0;
  }
  return EAGAIN;
}
NEAR_INTERPOSED int pthread_key_delete(pthread_key_t key) {
  if (!is_used(key)) return EINVAL;
  ++keys[key].generation;
  return 0;
}
NEAR_INTERPOSED int pthread_setspecific(pthread_key_t key, const void* value) {
  if (!is_used(key)) return EINVAL;
  values()[key] = {value, keys[key].generation};
  return 0;
}
NEAR_INTERPOSED void* pthread_getspecific(pthread_key_t key) {
  if (!is_used(key) || per_thread().values == nullptr) return nullptr;
  const PerThread::Value& value = values()[key];
  return value.generation == keys[key].generation ? const_cast<void*>(value.value) : nullptr;
}
NEAR_INTERPOSED int __cxa_thread_atexit_impl(void (*function)(void*), void* object, void*) {
  auto* const entry = static_cast<PerThread::AtExit*>(reserve(sizeof(PerThread::AtExit)));
  *entry = {function, object, per_thread().at_exit};
  per_thread().at_exit = entry;
  return 0;
}

// --- start and end ---

namespace {

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

// What an interposer of the subject calls as the next pthread_create.
int create_next(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                void* argument) {
  if (!simulated) return NEAR_REAL(pthread_create)(thread, attributes, start, argument);
  return create_thread(thread, attributes, start, argument);
}

}  // namespace

NEAR_INTERPOSED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                   void* (*start)(void*), void* argument) noexcept {
  // By the real dlsym: our own answers this question of the subject with create_next.
  static const auto next = reinterpret_cast<Create>(
      reinterpret_cast<decltype(&dlsym)>(real("dlsym"))(RTLD_NEXT, "pthread_create"));
  static const auto libc = NEAR_REAL(pthread_create);
  if (next != libc) return next(thread, attributes, start, argument);
  return create_next(thread, attributes, start, argument);
}
NEAR_INTERPOSED int pthread_join(pthread_t thread, void** result) {
  return join_thread(thread, result, kForever, NEAR_SITE);
}
NEAR_INTERPOSED int pthread_timedjoin_np(pthread_t thread, void** result, const timespec* time) {
  return join_thread(thread, result, deadline_of(CLOCK_REALTIME, time), NEAR_SITE);
}
NEAR_INTERPOSED int pthread_detach(pthread_t thread) noexcept { return detach_thread(thread); }
NEAR_INTERPOSED void pthread_exit(void* result) { end_thread(result); }
NEAR_INTERPOSED int pthread_kill(pthread_t, int signal) noexcept {
  return signal == 0 ? 0 : ENOSYS;
}
NEAR_INTERPOSED int pthread_cancel(pthread_t) { return ENOSYS; }
NEAR_INTERPOSED int pthread_setcancelstate(int state, int* before) {
  static_cast<void>(state);
  if (before != nullptr) *before = PTHREAD_CANCEL_ENABLE;
  return 0;
}

// --- C11 ---

namespace {

struct Thrd {
  thrd_start_t start;
  void* argument;
};

void* run_thrd(void* argument) {
  const Thrd made = *static_cast<Thrd*>(argument);
  return reinterpret_cast<void*>(static_cast<intptr_t>(made.start(made.argument)));
}

int thrd_status(int error) {
  if (error == 0) return thrd_success;
  if (error == EBUSY) return thrd_busy;
  return error == ETIMEDOUT ? thrd_timedout : thrd_error;
}
auto* of(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
auto* of(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

}  // namespace

NEAR_INTERPOSED int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  auto* const made = static_cast<Thrd*>(reserve(sizeof(Thrd)));
  *made = {start, argument};
  return thrd_status(pthread_create(thread, nullptr, run_thrd, made));
}
NEAR_INTERPOSED int thrd_join(thrd_t thread, int* result) {
  void* value = nullptr;
  const int error = join_thread(thread, &value, kForever, NEAR_SITE);
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<intptr_t>(value));
  return thrd_status(error);
}
NEAR_INTERPOSED int thrd_detach(thrd_t thread) { return thrd_status(detach_thread(thread)); }
NEAR_INTERPOSED void thrd_exit(int result) {
  end_thread(reinterpret_cast<void*>(static_cast<intptr_t>(result)));
}
NEAR_INTERPOSED void thrd_yield() { yield(); }
NEAR_INTERPOSED int thrd_sleep(const timespec* time, timespec*) {
  order();
  wait(nullptr, Wait::kSleep, now() + duration(*time), NEAR_SITE);
  return 0;
}
NEAR_INTERPOSED int mtx_init(mtx_t* mutex, int kind) noexcept {
  std::memset(mutex, 0, sizeof *mutex);
  if ((kind & mtx_recursive) != 0) {
    reinterpret_cast<pthread_mutex_t*>(mutex)->__data.__kind = PTHREAD_MUTEX_RECURSIVE;
  }
  return thrd_success;
}
NEAR_INTERPOSED void mtx_destroy(mtx_t*) noexcept {}
NEAR_INTERPOSED int mtx_lock(mtx_t* mutex) { return thrd_status(pthread_mutex_lock(of(mutex))); }
NEAR_INTERPOSED int mtx_trylock(mtx_t* mutex) {
  return thrd_status(pthread_mutex_trylock(of(mutex)));
}
NEAR_INTERPOSED int mtx_timedlock(mtx_t* mutex, const timespec* time) {
  return thrd_status(pthread_mutex_timedlock(of(mutex), time));
}
NEAR_INTERPOSED int mtx_unlock(mtx_t* mutex) {
  return thrd_status(pthread_mutex_unlock(of(mutex)));
}
NEAR_INTERPOSED int cnd_init(cnd_t* condition) {
  return thrd_status(pthread_cond_init(of(condition), nullptr));
}
NEAR_INTERPOSED void cnd_destroy(cnd_t*) {}
NEAR_INTERPOSED int cnd_wait(cnd_t* condition, mtx_t* mutex) {
  return thrd_status(pthread_cond_wait(of(condition), of(mutex)));
}
NEAR_INTERPOSED int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* time) {
  return thrd_status(pthread_cond_timedwait(of(condition), of(mutex), time));
}
NEAR_INTERPOSED int cnd_signal(cnd_t* condition) {
  return thrd_status(pthread_cond_signal(of(condition)));
}
NEAR_INTERPOSED int cnd_broadcast(cnd_t* condition) {
  return thrd_status(pthread_cond_broadcast(of(condition)));
}
NEAR_INTERPOSED void call_once(once_flag* flag, void (*function)()) {
  pthread_once(reinterpret_cast<pthread_once_t*>(flag), function);
}
NEAR_INTERPOSED int tss_create(tss_t* key, tss_dtor_t destructor) {
  return thrd_status(pthread_key_create(key, destructor));
}
NEAR_INTERPOSED void tss_delete(tss_t key) { pthread_key_delete(key); }
NEAR_INTERPOSED int tss_set(tss_t key, void* value) {
  return thrd_status(pthread_setspecific(key, value));
}
NEAR_INTERPOSED void* tss_get(tss_t key) { return pthread_getspecific(key); }

// --- the process ---

namespace {

int (*program)(int, char**, char**);

int run_program(int count, char** arguments, char** environment) {
  exit(program(count, arguments, environment));
}

}  // namespace

NEAR_INTERPOSED int __libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                                      void (*first)(), void (*last)(), void (*loader)(),
                                      void* stack) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(),
                        void (*)(), void*);
  program = main;
  return reinterpret_cast<Start>(real("__libc_start_main"))(run_program, count, arguments, first,
                                                            last, loader, stack);
}
NEAR_INTERPOSED void exit(int status) noexcept {
  if (simulated) run_at_exit();
  NEAR_REAL(exit)(status);
  __builtin_unreachable();
}
NEAR_INTERPOSED void _exit(int status) {
  finish("_exit");
  NEAR_REAL(_exit)(status);
  __builtin_unreachable();
}
NEAR_INTERPOSED void _Exit(int status) noexcept { _exit(status); }
NEAR_INTERPOSED pid_t fork() noexcept {
  errno = ENOSYS;
  return -1;
}
NEAR_INTERPOSED pid_t vfork() noexcept {
  errno = ENOSYS;
  return -1;
}

// --- dlsym: an interposer of the subject looks for the next pthread_create ---

extern "C" __attribute__((visibility("hidden"))) void* near_manycore_next(void* handle,
                                                                          const char* name) {
  if (handle == RTLD_NEXT && std::strcmp(name, "pthread_create") == 0) {
    return reinterpret_cast<void*>(&create_next);
  }
  return nullptr;
}
extern "C" __attribute__((visibility("hidden"))) void* near_manycore_dlsym;
void* near_manycore_dlsym = nullptr;
extern "C" __attribute__((visibility("hidden"))) void near_manycore_find_dlsym() {
  near_manycore_dlsym = real("dlsym");
}

}  // namespace near::manycore

// RTLD_NEXT depends on the caller's address, so the real function is jumped to, not called.
asm(R"(
.text
.globl dlsym
.type dlsym, @function
dlsym:
  pushq %rdi
  pushq %rsi
  subq $8, %rsp
  cmpq $0, near_manycore_dlsym(%rip)
  jne 1f
  call near_manycore_find_dlsym
1:
  movq 8(%rsp), %rsi
  movq 16(%rsp), %rdi
  call near_manycore_next
  addq $8, %rsp
  popq %rsi
  popq %rdi
  testq %rax, %rax
  jne 2f
  jmpq *near_manycore_dlsym(%rip)
2:
  ret
.size dlsym, .-dlsym
)");
