// What a domain can be told when it is made, and what it tells.
//
// Who may touch it: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearmalloc/reclaim/policy.hpp"

namespace near::reclaim {

class timeline;

// A thread that keeps everybody's objects from being freed.
struct stall {
  int32_t thread;         // its kernel thread number, as in /proc/self/task
  uint32_t record;        // its place in the domain
  uint64_t epoch;         // the domain's epoch (DEBRA) or round (Token EBR) now
  uint32_t milliseconds;  // since when it was noticed
};

struct options {
  policy reclaim = policy::adaptive();

  // Objects a thread has retired before it looks whether the epoch can be advanced (DEBRA,
  // ping_epochs), or whether hazards let them go (hazard_pointers). 0: DEBRA as published, which
  // always looks. Larger: fewer heavy fences, more garbage. What a thread retired that then only
  // reads, or waits, stays as long as nobody else retires a batch: others take it over when they
  // have advanced 16 epochs (rounds, looks at hazards), and one more for every eight such threads.
  size_t batch_size = 1024;

  // Operations between two looks: at another thread's announcement [Brown15: 10], or for the token
  // [Kim23: 1]. A thread that holds less than a batch looks for the token an eighth as often.
  uint32_t operations_between_checks = 10;

  // Records looked at each time. [Brown15: 1]
  uint32_t records_per_check = 1;

  // Token EBR: threads between two operations are skipped. false: as in the thesis, a thread that
  // begins no operation keeps the token.
  bool skip_idle = true;

  // membarrier(2) instead of a fence at every pin, where the kernel has it. Not under DEBRA with
  // batch_size 0: its epochs are so short that fences at pins cost less.
  bool asymmetric = true;

  // Runs of plain objects go to near_free_batch, where nearmalloc is behind operator new.
  bool hand_over_runs = true;

  // Adds up the time spent freeing (statistics::freeing_ns). Two readings of the clock each time.
  bool measure_time = false;

  // Called, in a thread that wanted to go on, when another one has kept the epoch or the token for
  // `stall_ms` milliseconds: once for each stall. It must not use the domain.
  void (*on_stall)(const stall&, void* context) noexcept = nullptr;
  void* context = nullptr;
  uint32_t stall_ms = 100;

  // Where frees, epochs and garbage are recorded (timeline.hpp), a row for each time a thread
  // attaches; it outlives the domain. Null: nowhere.
  timeline* record_to = nullptr;
};

// Sums over all threads; counters that others move, consistent each, not together.
struct statistics {
  uint64_t retired = 0;      // objects ever retired
  uint64_t freed = 0;        // of them destroyed
  uint64_t lost = 0;         // of them leaked: memory for a bag was refused, or fork tore it
  uint64_t unreclaimed = 0;  // retired - freed - lost
  // The most, looked at once in every epoch, by what each thread held when it entered its last one.
  uint64_t peak_unreclaimed = 0;
  double mean_unreclaimed = 0;  // the mean over epochs
  uint64_t epochs = 0;          // epochs, rounds of the token, or looks at hazards
  uint64_t heavy_fences = 0;    // of the process: membarrier calls, or the fences in their stead
  uint64_t longest_run = 0;     // the most objects freed in one go inside one operation
  uint64_t freeing_ns = 0;      // time spent freeing, if measured
  uint64_t stalls = 0;          // reported or not
  uint64_t looks = 0;           // hazard_pointers, ping_epochs: times that all slots were read
  // Robust schemes: `unreclaimed` does not exceed it, or its double while a barrier runs, as long
  // as deleters do not retire. 0: no bound.
  uint64_t bound = 0;
  uint32_t threads = 0;  // attached now
  uint32_t records = 0;  // ever made
};

}  // namespace near::reclaim
