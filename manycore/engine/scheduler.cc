// The scheduler: which fiber runs next, on which processor, and when.
//
// Each processor has a clock, at most one running fiber, and a queue of ready ones. The processors
// that have a running fiber are in a heap by clock, except the current one; waiting fibers with a
// deadline are in a heap by deadline. Whatever is earliest goes on.
// Invariants: an idle processor has an empty queue of fibers that may run there; a fiber is running,
// or in one queue, or waits, or has ended; time never goes backwards for a processor or a fiber.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/description.h"
#include "engine/fiber.h"
#include "engine/heap.h"

namespace near::manycore {

bool simulated = false;
Fiber* self = nullptr;
Processor* here = nullptr;
Time limit = kForever;
Fiber** fibers = nullptr;
unsigned fiber_count = 0;

namespace {

constexpr unsigned kMostFibers = 1 << 20;
constexpr unsigned kBuckets = 4096;

struct ByClock {
  static bool before(const Processor* a, const Processor* b) {
    return a->clock != b->clock ? a->clock < b->clock : a->id < b->id;
  }
};
struct ByDeadline {
  static bool before(const Fiber* a, const Fiber* b) {
    return a->deadline != b->deadline ? a->deadline < b->deadline : a->id < b->id;
  }
};
struct Waiters {  // of the keys in a bucket, the oldest first
  Fiber* first;
  Fiber* last;
};

Processor* processors;
bool* running;
uint16_t first_of_core[kMostCores];  // the processors of a core are a list, which ends with one
uint16_t next_of_core[kMostProcessors];  // that is not online
Heap<Processor, ByClock> runnable;  // without the current processor
Heap<Fiber, ByDeadline> timers;
Waiters* buckets;
unsigned queued = 0;    // fibers in all queues
unsigned unswitched = 0;
uint32_t* homes;  // by processor: fibers that began there and have not chosen processors since

Waiters& bucket_of(const void* key) {
  return buckets[(reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15 >> 40) % kBuckets];
}

template <typename List>
void append(List& list, Fiber* fiber) {
  fiber->next = nullptr;
  fiber->previous = list.last;
  (list.last == nullptr ? list.first : list.last->next) = fiber;
  list.last = fiber;
}

template <typename List>
void take_out(List& list, Fiber* fiber) {
  (fiber->previous == nullptr ? list.first : fiber->previous->next) = fiber->next;
  (fiber->next == nullptr ? list.last : fiber->next->previous) = fiber->previous;
}

void update_limit() {
  limit = kForever;
  if (!runnable.empty()) limit = runnable.top()->clock + description().slack;
  if (!timers.empty()) limit = std::min(limit, timers.top()->deadline + description().slack);
  if (here->queued != 0) limit = std::min(limit, here->quantum_end);
}

// Recomputes the costs of the processors of a core.
void share_core(unsigned core) {
  const auto each = [&](auto visit) {
    for (unsigned i = first_of_core[core]; i < online(); i = next_of_core[i]) visit(i);
  };
  unsigned busy = 0;
  each([&](unsigned i) { busy += running[i]; });
  const unsigned percent = busy > 1 ? machine().shared_core_percent : 100;
  each([&](unsigned i) {
    processors[i].hit = machine().l1.hit * percent / 100;
    processors[i].block = machine().basic_block * percent / 100;
  });
}

void set_running(unsigned processor, bool runs) {
  running[processor] = runs;
  share_core(machine().core_of[processor]);
}

// The fiber runs on an idle processor from `at` on.
void place(Processor& processor, Fiber* fiber, Time at) {
  if (processor.clock < at) processor.clock = at + machine().idle_wake;
  fiber->counts.waited_processor += processor.clock - std::min(processor.clock, fiber->since);
  processor.clock += machine().context_switch;
  processor.quantum_end = processor.clock + machine().quantum;
  processor.running = fiber;
  set_running(processor.id, true);
  fiber->state = State::kRunning;
  fiber->processor = &processor;
  show_processor(fiber);
}

// The first fiber of the queue that may run on the processor leaves it, or nullptr.
Fiber* dequeue(Processor& from, const Processor& to) {
  Fiber* fiber = from.first;
  while (fiber != nullptr && !fiber->affinity.has(to.id)) fiber = fiber->next;
  if (fiber == nullptr) return nullptr;
  take_out(from, fiber);
  --from.queued;
  --queued;
  return fiber;
}

void enqueue(Processor& processor, Fiber* fiber, Time at) {
  fiber->state = State::kReady;
  fiber->since = at;
  append(processor, fiber);
  ++processor.queued;
  ++queued;
}

bool has_fiber_for(const Processor& from, const Processor& to) {
  const Fiber* fiber = from.first;
  while (fiber != nullptr && !fiber->affinity.has(to.id)) fiber = fiber->next;
  return fiber != nullptr;
}

// An idle processor takes a fiber from the longest queue.
Fiber* steal(const Processor& thief) {
  Processor* longest = nullptr;
  for (unsigned i = 0; i < online() && queued != 0; ++i) {
    Processor& other = processors[i];
    if (other.queued == 0 || (longest != nullptr && other.queued <= longest->queued)) continue;
    if (has_fiber_for(other, thief)) longest = &other;
  }
  return longest == nullptr ? nullptr : dequeue(*longest, thief);
}

// The current processor lost its fiber: it takes the next of its queue, or another's.
void refill() {
  here->running = nullptr;
  set_running(here->id, false);
  Fiber* next = dequeue(*here, *here);
  if (next == nullptr && queued != 0) next = steal(*here);
  if (next != nullptr) place(*here, next, std::max(here->clock, next->since));
}

// A fiber begins where it may run, on the processor where the fewest others began.
unsigned take_home(Fiber* fiber) {
  unsigned home = 0;
  while (home + 1 < online() && !fiber->affinity.has(home)) ++home;
  for (unsigned i = home + 1; i < online(); ++i) {
    if (homes[i] < homes[home] && fiber->affinity.has(i)) home = i;
  }
  ++homes[home];
  fiber->home = static_cast<uint16_t>(home + 1);
  return home;
}

// Called when a fiber chooses its processors: the next new one may begin where it did.
void leave_home(Fiber* fiber) {
  if (fiber->home != 0) --homes[fiber->home - 1];
  fiber->home = 0;
}

Processor* idle_for(const Fiber* fiber, unsigned first) {
  for (unsigned i = 0; i < online(); ++i) {
    Processor& one = processors[(first + i) % online()];
    if (one.running == nullptr && fiber->affinity.has(one.id)) return &one;
  }
  return nullptr;
}

Processor* shortest_for(const Fiber* fiber, unsigned first) {
  Processor* shortest = nullptr;
  for (unsigned i = 0; i < online(); ++i) {
    Processor& one = processors[(first + i) % online()];
    if (!fiber->affinity.has(one.id)) continue;
    if (shortest == nullptr || one.queued < shortest->queued) shortest = &one;
  }
  return shortest;
}

void remove_waiter(Fiber* fiber) {
  if (fiber->key != nullptr) take_out(bucket_of(fiber->key), fiber);
  if (fiber->heap_place != 0) timers.remove(fiber);
}

void fire_timer() {
  Fiber* const fiber = timers.top();
  remove_waiter(fiber);
  fiber->in_time = false;
  make_ready(fiber, fiber->deadline);
}

[[noreturn]] void deadlock() {
  simulated = false;
  std::fputs("manycore: deadlock: every thread waits\n", stderr);
  print_waiting();
  finish("deadlock");
  _exit(70);
}

// The earliest processor goes on. The current one is in the heap if it has a running fiber.
void run_earliest() {
  while (!timers.empty() &&
         (runnable.empty() || timers.top()->deadline <= runnable.top()->clock)) {
    fire_timer();
  }
  if (runnable.empty()) deadlock();
  Fiber* const from = self;
  here = runnable.top();
  runnable.remove(here);
  self = here->running;
  update_limit();
  if (self != from) switch_fibers(from, self);
}

bool is_due(Time slack) {
  return (!runnable.empty() && runnable.top()->clock + slack < here->clock) ||
         (!timers.empty() && timers.top()->deadline + slack < here->clock);
}

}  // namespace

void start_scheduler() {
  processors = static_cast<Processor*>(reserve(machine().processors * sizeof(Processor)));
  running = static_cast<bool*>(reserve(machine().processors * sizeof(bool)));
  homes = static_cast<uint32_t*>(reserve(machine().processors * sizeof(uint32_t)));
  buckets = static_cast<Waiters*>(reserve(kBuckets * sizeof(Waiters)));
  fibers = static_cast<Fiber**>(reserve(kMostFibers * sizeof(Fiber*)));
  runnable.create(static_cast<Processor**>(reserve(machine().processors * sizeof(Processor*))));
  timers.create(static_cast<Fiber**>(reserve(kMostFibers * sizeof(Fiber*))));
  std::fill_n(first_of_core, kMostCores, uint16_t{kMostProcessors});
  for (unsigned i = machine().processors; i-- > 0;) {
    processors[i].id = i;
    processors[i].hit = machine().l1.hit;
    processors[i].block = machine().basic_block;
    uint16_t& first = first_of_core[machine().core_of[i]];
    next_of_core[i] = first;
    first = static_cast<uint16_t>(i);
  }
  here = &processors[0];
  self = new_fiber();
  self->state = State::kRunning;
  self->processor = here;
  take_home(self);
  here->running = self;
  set_running(0, true);
  here->quantum_end = machine().quantum;
  update_limit();
}

Fiber* new_fiber() {
  if (fiber_count == kMostFibers) fail("more than %u threads", kMostFibers);
  auto* const fiber = static_cast<Fiber*>(reserve(sizeof(Fiber)));
  fiber->id = fiber_count;
  fibers[fiber_count++] = fiber;
  for (unsigned i = 0; i < online(); ++i) fiber->affinity.add(i);
  return fiber;
}

// --- for the runtime ---

Fiber* current() { return self; }
Time now() { return here->clock; }
unsigned current_processor() { return here->id; }
unsigned id_of(const Fiber* fiber) { return fiber->id; }
void spend(Time cost) { here->clock += cost; }
const bool* running_processors() { return running; }
PerThread& per_thread() { return self->own; }
const Processors& affinity_of(const Fiber* fiber) { return fiber->affinity; }

Unswitched::Unswitched() { ++unswitched; }
Unswitched::~Unswitched() { --unswitched; }

void interrupt(unsigned processor, Time cost) {
  Processor& other = processors[processor];
  other.clock += cost;
  if (other.heap_place != 0) runnable.moved(&other);
  update_limit();
}

void order() {
  if (unswitched != 0) return;
  while (is_due(0)) {
    runnable.push(here);
    run_earliest();
  }
}

void reschedule() {
  if (unswitched != 0) return;
  if (here->queued != 0 && here->clock >= here->quantum_end) {
    yield();
  } else if (is_due(description().slack)) {
    runnable.push(here);
    run_earliest();
  } else {
    update_limit();
  }
}

void yield() {
  order();
  if (here->queued == 0) return;
  Fiber* const next = dequeue(*here, *here);
  if (next == nullptr) return;
  enqueue(*here, self, here->clock);
  place(*here, next, here->clock);
  runnable.push(here);
  run_earliest();
}

void stop_running() {
  refill();
  if (here->running != nullptr) runnable.push(here);
  run_earliest();
}

void make_ready(Fiber* fiber, Time at) {
  fiber->since = at;
  const bool is_new = fiber->processor == nullptr;
  const unsigned first = is_new ? take_home(fiber) : fiber->processor->id;
  if (Processor* const idle = idle_for(fiber, first)) {
    place(*idle, fiber, at);
    runnable.push(idle);
  } else {
    Processor* const shortest = shortest_for(fiber, first);
    if (is_new) fiber->processor = shortest;
    enqueue(*shortest, fiber, at);
  }
  update_limit();
}

void set_affinity(Fiber* fiber, const Processors& allowed) {
  fiber->affinity = allowed;
  leave_home(fiber);
  if (fiber != self || allowed.has(here->id)) return;
  refill();
  if (here->running != nullptr) runnable.push(here);
  make_ready(self, here->clock);
  run_earliest();
}

bool wait(const void* key, Wait why, Time deadline, const void* site) {
  self->key = key;
  self->why = why;
  self->deadline = deadline;
  self->site = site;
  self->in_time = true;
  self->state = State::kWaiting;
  if (key != nullptr) append(bucket_of(key), self);
  if (deadline != kForever) timers.push(self);
  stop_running();
  return self->in_time;
}

unsigned wake(const void* key, unsigned count) {
  unsigned woken = 0;
  for (Fiber* fiber = bucket_of(key).first; fiber != nullptr && woken < count;) {
    Fiber* const next = fiber->next;
    if (fiber->key == key) {
      remove_waiter(fiber);
      make_ready(fiber, here->clock);
      ++woken;
    }
    fiber = next;
  }
  return woken;
}

unsigned requeue(const void* key, unsigned count, const void* other) {
  unsigned moved = 0;
  for (Fiber* fiber = bucket_of(key).first; fiber != nullptr && moved < count;) {
    Fiber* const next = fiber->next;
    if (fiber->key == key) {
      take_out(bucket_of(key), fiber);
      fiber->key = other;
      append(bucket_of(other), fiber);
      ++moved;
    }
    fiber = next;
  }
  return moved;
}

void print_waiting() {
  static constexpr const char* kNames[] = {"a futex",   "a lock",      "a condition", "a barrier",
                                           "a semaphore", "time to pass", "a thread's end"};
  each_fiber([](const Fiber& fiber) {
    if (fiber.state != State::kWaiting) return;
    std::fprintf(stderr, "manycore: thread %u waits for %s at %p, called from %p\n", fiber.id,
                 kNames[static_cast<int>(fiber.why)], fiber.key, fiber.site);
  });
}

}  // namespace near::manycore
