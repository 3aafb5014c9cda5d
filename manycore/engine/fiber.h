// Fibers, processors, and the state of the scheduler that events read.
#pragma once

#include "engine/engine.h"

namespace near::manycore {

struct Processor;

enum class State : uint8_t { kReady, kRunning, kWaiting, kEnded };

struct Fiber {
  static constexpr unsigned kFrames = 256;

  void* stack;    // where it was switched away
  uintptr_t fs;   // its thread pointer
  unsigned id;    // in the order of creation
  State state;
  Processor* processor;  // the one that it runs on, or ran on last
  Fiber* next;           // in a processor's queue, or among those that wait
  Fiber* previous;

  // --- waiting ---
  const void* key;
  Wait why;
  bool in_time;  // it was woken before its deadline
  Time deadline;
  Time since;
  const void* site;
  size_t heap_place;  // among the timers

  // --- its thread ---
  pthread_t thread;
  void* (*start)(void*);
  void* argument;
  void* result;
  uint32_t park;  // the real thread waits while this is 0
  bool detached;
  bool joined;
  Processors affinity;
  uint16_t home;  // 1 + the processor where it began; 0: it has chosen processors since
  PerThread own;

  Counts counts;
  Counts region_begin;
  unsigned region;  // 0: none, else its number + 1
  unsigned depth;   // of `frames`
  const void* frames[kFrames];  // the call sites of the functions that it is in
};

struct Processor {
  Time clock;
  Time hit;    // the cost of a hit in the L1, and of a basic block, which depend on whether another
  Time block;  // processor of the core runs
  unsigned id;
  Fiber* running;  // nullptr: idle
  Fiber* first;    // the queue of ready fibers
  Fiber* last;
  unsigned queued;
  Time quantum_end;
  size_t heap_place;
};

extern Fiber* self;      // the current fiber
extern Processor* here;  // its processor
extern Time limit;       // the fiber may run until here
extern Memory memory;

// here->clock passed the limit: lets others run.
void reschedule();

// Goes on in another fiber: saves the registers and the stack of the first, restores the second's.
void switch_fibers(Fiber* from, Fiber* to);

// Makes the processors and the fiber of the main thread.
void start_scheduler();
void adopt_main_thread();
Fiber* new_fiber();
// A new or woken fiber gets a processor, or a place in a queue.
void make_ready(Fiber* fiber, Time at);
// The current fiber stops running (it waits or ended); another goes on.
void stop_running();
// Writes the processor's number where glibc's rseq area of the fiber is.
void show_processor(const Fiber* fiber);
// Prints what each waiting fiber waits for.
void print_waiting();

const bool* running_processors();
void interrupt(unsigned processor, Time cost);
template <typename Visit>
void each_fiber(Visit visit);
extern Fiber** fibers;
extern unsigned fiber_count;
template <typename Visit>
void each_fiber(Visit visit) {
  for (unsigned i = 0; i < fiber_count; ++i) visit(*fibers[i]);
}

}  // namespace near::manycore
