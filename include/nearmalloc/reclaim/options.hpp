// The options with which a domain is made, and the statistics that it returns.
//
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nearmalloc/reclaim/limbo_memory.hpp"
#include "nearmalloc/reclaim/policy.hpp"

namespace near::reclaim {

class timeline;

// A thread that keeps the objects of all threads from being freed.
struct stall {
  int32_t thread;         // its kernel thread number, as in /proc/self/task
  uint32_t record;        // its place in the domain
  uint64_t epoch;         // the domain's epoch (DEBRA) or round (Token EBR) now
  uint32_t milliseconds;  // since the stall was noticed
};

// What a thread does that retires while options::max_unreclaimed_bytes are unreclaimed. In either
// case it first reclaims: it takes over what all threads retired, looks at every slot (robust
// schemes) or for the end of the epoch, and frees what is safe, whatever the policy.
enum class at_limit : uint8_t {
  help,  // then it goes on, even if it is still over the limit: it never waits
  // Then it waits until there is room: schemes with slots in `retire`, the others at the thread's
  // next pin (qsbr: report), since its own pin may be what keeps the objects. If a reader stalls,
  // the others wait for it (ibr, hyaline: if it keeps more than the limit); a thread that is pinned
  // through another handle of the domain (qsbr: has one), or in a deleter, does not wait. For
  // schemes with slots the limit must exceed what the slots in use can hold.
  block,
};

struct options {
  policy reclaim = policy::adaptive();

  // A thread retires so many objects before it looks whether the epoch can be advanced (DEBRA,
  // checkpoints, ping_epochs), or which objects no hazard (hazard_pointers) or reservation (ibr)
  // holds, or sends them (hyaline). 0: DEBRA as published, which always looks, and has full fences
  // at pins instead of heavy ones in scans; so for checkpoints. Larger: fewer heavy fences, more
  // garbage. If a thread stops retiring, what it retired stays until other threads
  // retire batches: they take it over once they have advanced 16 epochs (rounds, looks), and one
  // more for every eight such threads.
  size_t batch_size = 1024;

  // The most bytes of retired objects that are not freed yet, as the program counts them when it
  // retires them. 0: no limit. docs/reclamation-bound.md has the proof of what is kept. If
  // `when_full` blocks, that is the limit and a few objects for each thread; under robust schemes
  // also while a reader stalls. The memory that notes the objects does not count: 20 bytes each;
  // under ibr and hyaline 36, and under hyaline also 88 for each batch, and 16 for each thread that
  // may hold some of it. No effect under leaky.
  size_t max_unreclaimed_bytes = 0;
  at_limit when_full = at_limit::help;

  // Operations between two looks at another thread's announcement [Brown15: 10], or for the token
  // [Kim23: 1]. A thread that holds less than a batch looks for the token an eighth as often. Under
  // qsbr each report of a thread that holds a batch looks, at all records up to the first obstacle.
  uint32_t operations_between_checks = 10;

  // Records looked at each time. [Brown15: 1]
  uint32_t records_per_check = 1;

  // Token EBR: whether threads between two operations are skipped. false: as in the thesis, a
  // thread that begins no operation keeps the token.
  bool skip_idle = true;

  // Uses membarrier(2) instead of a fence at every pin, where the kernel has it. Has no effect
  // under DEBRA with batch_size 0: its epochs are so short that fences at pins cost less.
  bool asymmetric = true;

  // Hands runs of plain objects to near_free_batch, if operator new allocates from nearmalloc.
  bool hand_over_runs = true;

  // Adds up the time spent freeing (statistics::freeing_ns); reads the clock twice each time.
  bool measure_time = false;

  // A thread calls this when another one has kept the epoch or the token from moving on for
  // `stall_ms` milliseconds; once for each stall. It must not use the domain.
  void (*on_stall)(const stall&, void* context) noexcept = nullptr;
  void* context = nullptr;
  uint32_t stall_ms = 100;

  // Where the notes of retired objects lie. Functions and context must outlive the domain.
  limbo_memory memory = {};

  // Frees, epochs and garbage are recorded here (timeline.hpp), with a row for each time a thread
  // attaches. It must outlive the domain. Null: nothing is recorded.
  timeline* record_to = nullptr;
};

// Sums over all threads. Other threads change the counters meanwhile: each is consistent in itself,
// but not with the others.
struct statistics {
  uint64_t retired = 0;      // objects ever retired
  uint64_t freed = 0;        // objects destroyed
  uint64_t lost = 0;         // objects leaked: no memory for a bag, or a fork in mid-change
  uint64_t unreclaimed = 0;  // retired - freed - lost
  // The most over epochs, sampled once in each: what each thread held when it last entered one.
  uint64_t peak_unreclaimed = 0;
  double mean_unreclaimed = 0;  // the mean over epochs
  uint64_t epochs = 0;          // epochs, rounds of the token, or looks at hazards
  uint64_t heavy_fences = 0;    // of the process: membarrier calls, or full fences instead
  uint64_t longest_run = 0;     // the most objects freed in one go inside one operation
  uint64_t freeing_ns = 0;      // time spent freeing, if measured
  uint64_t stalls = 0;          // reported or not
  uint64_t looks = 0;           // hazard_pointers, ping_epochs, checkpoints, ibr, hyaline: how
                                // often a thread read all slots, or sent a batch
  // Schemes with slots: `unreclaimed` does not exceed this, or twice this while a barrier runs, as
  // long as deleters do not retire. 0: no bound that the library knows.
  uint64_t bound = 0;
  // What the unreclaimed objects count, in bytes. While a thread takes objects over from another
  // one, some may count twice.
  uint64_t unreclaimed_bytes = 0;
  uint64_t over_limit = 0;  // objects retired that exceeded max_unreclaimed_bytes, after helping
  uint32_t threads = 0;     // attached now
  uint32_t records = 0;     // ever made
};

}  // namespace near::reclaim
