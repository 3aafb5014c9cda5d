// What the runtime may ask of the engine: the current thread, its clock, waiting, waking.
//
// All simulated threads run on one kernel thread; each is a fiber with a stack and thread-local
// storage of its own. Exactly one fiber runs at a time; these functions are called by that fiber.
// Invariant: a fiber that acts on state that others can see has the smallest clock of all running
// fibers (order() makes it so).
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "engine/counts.h"
#include "model/machine.h"
#include "model/memory.h"
#include "model/pages.h"

namespace near::manycore {

struct Fiber;

// A set of processors.
struct Processors {
  uint64_t words[kMostProcessors / 64];
  bool has(unsigned i) const { return words[i / 64] >> i % 64 & 1; }
  void add(unsigned i) { words[i / 64] |= uint64_t{1} << i % 64; }
};

// --- whether anything is simulated ---

// False before the engine is ready and in its own calls into libc; then an interposed function calls
// the real one.
extern bool simulated;

// While one of these lives, nothing is simulated: for calls into libc that may call back.
class Unsimulated {
 public:
  Unsimulated() : before_(simulated) { simulated = false; }
  ~Unsimulated() { simulated = before_; }
  Unsimulated(const Unsimulated&) = delete;
  Unsimulated& operator=(const Unsimulated&) = delete;

 private:
  const bool before_;
};

// While one of these lives, no other fiber runs unless this one waits: libc holds a lock.
class Unswitched {
 public:
  Unswitched();
  ~Unswitched();
  Unswitched(const Unswitched&) = delete;
  Unswitched& operator=(const Unswitched&) = delete;
};

// --- the current thread and its clock ---

Fiber* current();
Time now();
unsigned current_processor();
unsigned id_of(const Fiber* fiber);
void spend(Time cost);  // never switches
// Lets every fiber with a smaller clock run first. After it returns, this fiber is the earliest.
void order();
// An access of any size, as the instrumented code would make it. `site` is the calling code.
void access(const void* address, size_t bytes, Access kind, const void* site);
// The next number of a stream that the seed determines.
uint64_t random_number();

// --- waiting and waking: the keys are addresses ---

enum class Wait : uint8_t { kFutex, kLock, kCondition, kBarrier, kSemaphore, kSleep, kJoin };
inline constexpr Time kForever = ~Time{0};

// The fiber waits until wake() names this key, or until the deadline: then the result is false. The
// caller called order(), and nothing between its test of the condition and this call switches.
bool wait(const void* key, Wait why, Time deadline, const void* site);
// Wakes up to `count` fibers that wait for the key, the oldest first. Returns how many.
unsigned wake(const void* key, unsigned count);
// Up to `count` fibers that wait for `key` wait for `other` from now on. Returns how many.
unsigned requeue(const void* key, unsigned count, const void* other);
void yield();

// --- threads ---

// Starts start(argument) on a new fiber. Returns 0 or an errno.
int create_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                  void* argument);
// The fiber ends, after the runtime's destructors ran.
[[noreturn]] void end_thread(void* result);
// Waits for the end of a thread; ESRCH, EINVAL (detached) or EDEADLK as pthread_join.
int join_thread(pthread_t thread, void** result, Time deadline, const void* site);
int detach_thread(pthread_t thread);
Fiber* fiber_of(pthread_t thread);  // nullptr if it is unknown, or was joined
void set_affinity(Fiber* fiber, const Processors& allowed);
const Processors& affinity_of(const Fiber* fiber);
// The runtime's destructors, which the engine calls in a fiber that ends.
void run_thread_destructors();

// Memory of the runtime for each fiber, zeroed at its start.
struct PerThread {
  static constexpr size_t kKeys = 1024;  // PTHREAD_KEYS_MAX
  struct Value {
    const void* value;
    uint64_t generation;
  };
  struct AtExit {
    void (*function)(void*);
    void* object;
    AtExit* next;
  };
  Value* values;  // kKeys of them, made at the first use
  AtExit* at_exit;
};
PerThread& per_thread();

// --- the machine and the accounts ---

const Machine& machine();
unsigned online();  // the first so many processors of the machine are online
Pages& pages();
Pages::Caller caller();  // for the calls of Pages

// Charges a call of the kernel to the current fiber and counts it.
void charge(const char* name, const CallOutcome& outcome);
void charge(const char* name, Time cost);
// A lock was taken after `waited`.
void count_lock(const void* lock, const char* kind, Time waited, const void* site);
// An allocation of the subject, so that reports can name the block.
void count_block(const void* address, size_t bytes, const void* site);

// Zeroed memory of the engine, from the host, outside the simulated arena.
void* reserve(size_t bytes);
// The path to open for `path`: itself, or its place in the folder of the pretended topology.
const char* redirected(const char* path, char* buffer, size_t bytes);
// Writes the result, once. `ended` says how the process ended.
void finish(const char* ended);
// Ends the process with a message on standard error and exit status 70.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
// A function of libc, past all interposers.
void* real(const char* name);

}  // namespace near::manycore
