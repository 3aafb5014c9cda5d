// What the runtime may ask of the engine: the current thread, its clock, waiting, waking.
//
// All simulated threads run on one kernel thread; each is a fiber with thread-local storage of its
// own. Exactly one fiber runs at a time. A call that takes virtual time can switch to another fiber.
// Invariant: a fiber that acts on state that others can see has the smallest clock of all running
// fibers (order() makes it so).
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

#include "model/machine.h"
#include "model/memory.h"

namespace near::manycore {

// Ends the process with a message on standard error and exit status 70.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Zeroed memory of the engine, from the host, never returned, outside the simulated arena.
void* reserve(size_t bytes);

struct Run;   // the description
struct Fiber;

const Machine& machine();
unsigned run_processors();  // the first so many processors of the machine are online

// Whether calls of this kernel thread are simulated: false before the engine is ready, on parked
// threads and in the engine's own calls into libc. An interposed function that is not simulated
// calls the real one.
bool simulated();

// While one of these lives, events cost nothing and no fiber is switched: for calls into libc that
// may call back (a lock of libc could be held).
class Unsimulated {
 public:
  Unsimulated();
  ~Unsimulated();
  Unsimulated(const Unsimulated&) = delete;
  Unsimulated& operator=(const Unsimulated&) = delete;
};

// --- the current thread ---
Fiber* current();
Time now();              // the clock of the current fiber's processor
unsigned processor_of(const Fiber* fiber);
uint64_t random_of_run();  // a stream that the seed determines, for getrandom and such

// --- time ---
// The clock goes on by `cost`; never switches.
void spend(Time cost);
// Lets every fiber with a smaller clock run first. After it returns, this fiber is the earliest.
void order();
// An access of any size, as the instrumented code would make it; `pc` is reported as its site.
void access(const void* address, size_t bytes, Access kind, const void* pc);

// --- waiting and waking: the keys are addresses ---
enum class Wait : uint8_t { kFutex, kLock, kCondition, kBarrier, kSemaphore, kSleep, kJoin, kOther };
inline constexpr Time kForever = ~Time{0};

// The fiber waits until wake() names it by this key, or the deadline passes: then false. The
// caller has called order() and tested its condition since. `lock` is what is reported.
bool wait(const void* key, Wait why, Time deadline, const void* pc);
// Wakes up to `count` fibers that wait for the key, oldest first, `cost` after now. Returns how many.
unsigned wake(const void* key, unsigned count, Time cost);
// As wake for one fiber, but the rest (up to `move`) waits for `other` instead (FUTEX_REQUEUE).
unsigned requeue(const void* key, unsigned count, const void* other, unsigned move);
void yield();  // sched_yield

// --- threads ---
// A new fiber that runs start(argument) on a parked pthread; 0, or an errno. `affinity` may be null.
int create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
           void* argument, const cpu_set_t* affinity);
[[noreturn]] void end_thread(void* result);  // pthread_exit, once the destructors have run
Fiber* fiber_of(pthread_t thread);           // nullptr if it is none of ours, or was joined
bool ended(const Fiber* fiber);
void* result_of(const Fiber* fiber);
void forget_thread(Fiber* fiber);            // joined, or detached and ended
void set_affinity(Fiber* fiber, const cpu_set_t& set);
void get_affinity(const Fiber* fiber, cpu_set_t& set);
int tid_of(const Fiber* fiber);
// Called by the engine in the ending fiber, before it ends: the runtime's destructors.
using AtEnd = void (*)();
void at_thread_end(AtEnd run);

// --- accounting ---
// A system call that was simulated: counted by name.
void count_call(const char* name, Time cost, Time waited);
// A lock was taken: `waited` is 0 if it was free.
void count_lock(const void* lock, const char* kind, Time waited, const void* pc);
void interrupt(unsigned processor, Time cost);  // the processor loses so much time

// Whether each processor runs a thread now (for shootdowns); an array of machine().processors.
const bool* running();

// Writes the result once. `ended` says how: "exit", "signal 11", ...
void finish(const char* ended);

// --- the description, for the runtime ---
// Where a path that the process opens lies: itself, or its place in the folder of a redirect.
const char* redirected(const char* path, char* buffer, size_t bytes);

}  // namespace near::manycore
