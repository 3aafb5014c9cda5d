// pthread_create and thrd_create as the overriding library exports them: they count the new thread,
// which may need the helper (heap/purge_thread.h), and change nothing else.
//
// The helper is started here, before the new thread, because here the program may create threads: a
// thread that has locked itself in a sandbox would be killed for it. The new thread is counted
// before it exists and marks itself when it runs, so that its end is counted, too.
// Invariant: a slot is taken from before a thread is created until the new thread has read it.
// Thread-safety: any thread.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <threads.h>

#include <bit>
#include <cerrno>

#include "front/front.h"
#include "front/thread.h"
#include "shim/libc.h"

namespace {

template <typename Result>
using Routine = Result (*)(void*);
using Create = int (*)(pthread_t*, const pthread_attr_t*, Routine<void*>, void*);
using CreateC11 = int (*)(thrd_t*, Routine<int>, void*);

// Returns the function of that name in the next library: the C library's, or a tool's.
template <typename Function>
Function next(near::Atomic<Function>& found, const char* name) {
  Function function = found.load(near::kRelaxed);  // relaxed: all threads find the same
  if (function == nullptr) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    found.store(function, near::kRelaxed);  // relaxed: as above
  }
  return function;
}

Create next_pthread_create() {
  static constinit near::Atomic<Create> found{nullptr};
  return next(found, "pthread_create");
}

CreateC11 next_thrd_create() {
  static constinit near::Atomic<CreateC11> found{nullptr};
  return next(found, "thrd_create");
}

// What a new thread is to run.
struct Start {
  void (*routine)();  // of the type that its trampoline knows
  void* argument;
};

// The new thread reads a slot and gives it back. Slots are not blocks: freed blocks would wait in
// the creator's inbox until it allocates. Blocks serve if more threads are being created than there
// are slots.
constexpr unsigned kSlots = 64;
constinit Start slots[kSlots] = {};
constinit near::Atomic<uint64_t> free_slots{~uint64_t{0}};

Start* take_start() {
  uint64_t mask = free_slots.load(near::kRelaxed);  // relaxed: the exchange decides
  while (mask != 0) {
    // pairs: start-slot
    if (free_slots.compare_exchange_weak(mask, mask & (mask - 1), near::kAcquire, near::kRelaxed)) {
      return &slots[std::countr_zero(mask)];
    }
  }
  return static_cast<Start*>(near::allocate(sizeof(Start)));
}

void give_start(Start* start) {
  if (start < slots || start >= slots + kSlots) return near::release(start);
  free_slots.fetch_or(uint64_t{1} << (start - slots), near::kRelease);  // pairs: start-slot
}

template <typename Result>
Result run_counted(void* room) {
  const Start own = *static_cast<Start*>(room);
  give_start(static_cast<Start*>(room));
  near::mark_counted_thread();
  return reinterpret_cast<Routine<Result>>(own.routine)(own.argument);
}

// Called by the constructor, or earlier, before the first thread: a library that the loader starts
// before this one may create it. The C library's own functions create and join the helper: a tool
// that sees one of the two and not the other takes the program for wrong.
void announce() {
  static bool done = false;
  if (done) return;
  done = true;
  near::announce_threads(libc_pthread_create);
}

// Calls create(trampoline, room) for a thread that runs routine(argument). If the system has no
// room for another thread, the helper ends to make room. In a child forked by a handler that
// interrupted our own work it returns `refused`: the new thread would wait for what that work
// holds.
template <typename Result, typename Call>
int create_counted(Routine<Result> routine, void* argument, int refused, Call create) {
  if (near::is_left_alone()) return refused;
  announce();
  near::count_new_thread();
  Start* start = take_start();
  int error = refused;
  if (start != nullptr) {
    *start = {reinterpret_cast<void (*)()>(routine), argument};
    error = create(run_counted<Result>, start);
    // pthread_join may return before the kernel stops counting the thread that ended.
    const int attempts = error == refused && near::give_up_purge_thread() ? 1000 : 0;
    for (int made = 0; error == refused && made < attempts; ++made) {
      if (made > 0) sched_yield();
      error = create(run_counted<Result>, start);
    }
    if (error != 0) give_start(start);
  }
  if (error != 0) near::discount_new_thread();
  return error;
}

__attribute__((constructor)) void announce_early() { announce(); }

}  // namespace

extern "C" {

NEAR_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                               Routine<void*> routine, void* argument) noexcept {
  return create_counted(routine, argument, EAGAIN, [&](Routine<void*> run, void* room) {
    return next_pthread_create()(thread, attributes, run, room);
  });
}

// glibc's own thrd_create does not call pthread_create.
NEAR_EXPORT int thrd_create(thrd_t* thread, thrd_start_t routine, void* argument) {
  return create_counted(routine, argument, thrd_error, [&](Routine<int> run, void* room) {
    return next_thrd_create()(thread, run, room);
  });
}

}  // extern "C"
