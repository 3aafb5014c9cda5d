// The life of threads: each fiber has the stack and the thread-local storage of a real thread,
// which is parked as long as the fiber lives.
//
// The real thread runs only at its start, until it parks, and at its end, after it was joined; the
// creating or joining fiber waits for it on the host, so that one kernel thread runs at any time and
// each run does the same in the same order.
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/fiber.h"
#include "engine/host.h"
#include "engine/loader_blocks.h"

// Saves the callee-saved registers and the stack pointer, changes the thread pointer, restores.
asm(R"(
.text
.globl near_manycore_switch
.hidden near_manycore_switch
.type near_manycore_switch, @function
near_manycore_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  wrfsbase %rdx
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size near_manycore_switch, .-near_manycore_switch
)");
extern "C" void near_manycore_switch(void** save_stack, void* stack, uintptr_t fs);

namespace near::manycore {
namespace {

// Room below the parked thread's frame, which the kernel may use for nothing: signals are blocked.
constexpr size_t kGap = 1024;
constexpr size_t kRegisters = 6;  // that near_manycore_switch restores

Fiber* to_reap = nullptr;  // a detached thread that ended; the next fiber lets its real thread end
unsigned live = 1;         // fibers that have not ended

void host_futex(uint32_t* address, int operation, uint32_t value) {
  host_call(SYS_futex, word(address), operation, value);
}

uintptr_t thread_pointer() {
  uintptr_t value;
  asm("movq %%fs:0, %0" : "=r"(value));
  return value;
}

// glibc registered an area in which the kernel would write the host's processor.
void unregister_rseq() {
  if (__rseq_size == 0) return;
  auto* const area =
      reinterpret_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  constexpr uint32_t kSignature = 0x53053053;
  host_call(SYS_rseq, word(area), 32, 1 /* RSEQ_FLAG_UNREGISTER */, kSignature);
}

void reap(Fiber* fiber) {
  const Unsimulated unsimulated;
  const LoaderAllocates loader_allocates;
  fiber->park = 1;
  host_futex(&fiber->park, FUTEX_WAKE_PRIVATE, 1);
  static auto* const join = reinterpret_cast<int (*)(pthread_t, void**)>(real("pthread_join"));
  join(fiber->thread, nullptr);
}

void reap_waiting() {
  if (Fiber* const fiber = to_reap) {
    to_reap = nullptr;
    reap(fiber);
  }
}

[[noreturn]] void run_fiber() {
  reap_waiting();
  end_thread(self->start(self->argument));
}

struct Parking {
  Fiber* fiber;
  uint32_t parked;
};

// What the real thread runs.
void* park(void* argument) {
  auto* const parking = static_cast<Parking*>(argument);
  Fiber* const fiber = parking->fiber;
  unregister_rseq();
  auto* stack = reinterpret_cast<uintptr_t*>(
      (reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kGap) & ~uintptr_t{63});
  *--stack = 0;  // the return address of run_fiber
  *--stack = reinterpret_cast<uintptr_t>(&run_fiber);
  stack -= kRegisters;
  std::fill_n(stack, kRegisters, uintptr_t{0});
  fiber->stack = stack;
  fiber->fs = thread_pointer();
  parking->parked = 1;
  host_futex(&parking->parked, FUTEX_WAKE_PRIVATE, 1);
  while (__atomic_load_n(&fiber->park, __ATOMIC_ACQUIRE) == 0) {
    host_futex(&fiber->park, FUTEX_WAIT_PRIVATE, 0);
  }
  return nullptr;
}

// Starts the real thread, with all signals blocked, and waits until it is parked.
int start_real(Fiber* fiber, const pthread_attr_t* attributes) {
  const Unsimulated unsimulated;
  const LoaderAllocates loader_allocates;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(real("pthread_create"));
  Parking parking{fiber, 0};
  sigset_t all, before;
  std::memset(&all, 0xff, sizeof all);
  host_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&all), word(&before), 8);
  const int error = create(&fiber->thread, attributes, &park, &parking);
  host_call(SYS_rt_sigprocmask, SIG_SETMASK, word(&before), 0, 8);
  while (error == 0 && __atomic_load_n(&parking.parked, __ATOMIC_ACQUIRE) == 0) {
    host_futex(&parking.parked, FUTEX_WAIT_PRIVATE, 0);
  }
  return error;
}

bool is_detached(const pthread_attr_t* attributes) {
  int state = PTHREAD_CREATE_JOINABLE;
  return attributes != nullptr && pthread_attr_getdetachstate(attributes, &state) == 0 &&
         state == PTHREAD_CREATE_DETACHED;
}

// The real thread should be joinable, as it is joined when the fiber has ended.
int start_joinable(Fiber* fiber, const pthread_attr_t* attributes) {
  if (!is_detached(attributes)) return start_real(fiber, attributes);
  pthread_attr_t joinable = *attributes;
  pthread_attr_setdetachstate(&joinable, PTHREAD_CREATE_JOINABLE);
  return start_real(fiber, &joinable);
}

}  // namespace

void switch_fibers(Fiber* from, Fiber* to) {
  near_manycore_switch(&from->stack, to->stack, to->fs);
  reap_waiting();
}

void show_processor(const Fiber* fiber) {
  if (__rseq_size == 0) return;
  auto* const area = reinterpret_cast<uint32_t*>(fiber->fs + static_cast<uintptr_t>(__rseq_offset));
  area[0] = area[1] = fiber->processor->id;  // cpu_id_start, cpu_id
}

// The main thread becomes a fiber where it is.
void adopt_main_thread() {
  unregister_rseq();
  self->fs = thread_pointer();
  self->thread = pthread_self();
  show_processor(self);
}

int create_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                  void* argument) {
  order();
  Fiber* const fiber = new_fiber();
  fiber->start = start;
  fiber->argument = argument;
  fiber->detached = is_detached(attributes);
  fiber->affinity = self->affinity;
  if (const int error = start_joinable(fiber, attributes); error != 0) {
    fiber->state = State::kEnded;
    fiber->joined = true;
    return error;
  }
  ++live;
  *thread = fiber->thread;
  charge("clone", machine().system_call + machine().context_switch);
  make_ready(fiber, now());
  return 0;
}

void end_thread(void* result) {
  run_thread_destructors();
  order();
  self->result = result;
  self->state = State::kEnded;
  wake(self, 1);
  if (self->detached && self->id != 0) {
    self->joined = true;
    to_reap = self;
  }
  if (--live == 0) exit(0);
  stop_running();
  __builtin_unreachable();
}

Fiber* fiber_of(pthread_t thread) {
  for (unsigned i = fiber_count; i-- > 0;) {
    if (fibers[i]->thread == thread && !fibers[i]->joined) return fibers[i];
  }
  return nullptr;
}

int join_thread(pthread_t thread, void** result, Time deadline, const void* site) {
  order();
  Fiber* const fiber = fiber_of(thread);
  if (fiber == nullptr) return ESRCH;
  if (fiber == self) return EDEADLK;
  if (fiber->detached) return EINVAL;
  while (fiber->state != State::kEnded) {
    spend(machine().futex_wait);
    if (!wait(fiber, Wait::kJoin, deadline, site)) return ETIMEDOUT;
  }
  if (result != nullptr) *result = fiber->result;
  fiber->joined = true;
  if (fiber->id != 0) reap(fiber);
  return 0;
}

int detach_thread(pthread_t thread) {
  order();
  Fiber* const fiber = fiber_of(thread);
  if (fiber == nullptr) return ESRCH;
  if (fiber->detached) return EINVAL;
  fiber->detached = true;
  if (fiber->state == State::kEnded) {
    fiber->joined = true;
    if (fiber->id != 0) reap(fiber);
  }
  return 0;
}

}  // namespace near::manycore
