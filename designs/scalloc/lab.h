// Local allocation buffers: each holds a hot span and the reusable spans of each size class.
//
// A LAB belongs to one thread (TLAB), or to the threads whose numbers are equal modulo the number
// of cores (CLAB). A thread holds a CLAB's lock while it uses its hot spans and local free lists.
// Invariant: `owner` is unique to one opening of one LAB, { opening : 32 | LAB : 32 }, and kNobody
// while the LAB is terminated; a span whose owner is not that of its LAB is an orphan. LABs are
// never freed, so every owner, past or present, leads to one.
// Thread-safety: only the owner uses hot spans; any thread uses the owner word and the sets.
// [Aigner15 §3.4, §5]
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "designs/scalloc/reusable_set.h"
#include "designs/scalloc/settings.h"
#include "designs/scalloc/span.h"

namespace near::design::scalloc {

inline constexpr uint64_t kNobody = 0;

// The hot span of a LAB that has none: every allocation from it fails.
NEAR_HIDDEN extern Span no_span;

// Events off the fast path, counted where they occur.
enum class Event : unsigned {
  spans_from_arena,
  spans_from_own_stack,
  spans_from_search,
  spans_to_pool,
  spans_made_hot_again,
  spans_adopted,
  spans_emptied_by_allocation,
  remote_refills,
  madvise_calls,
  fresh_batches,
  guards_moved,
  count,
};
inline constexpr unsigned kEvents = static_cast<unsigned>(Event::count);

struct alignas(64) Lab {
  constexpr Lab() {
    for (Span*& span : hot) span = &no_span;
  }

  // The span to allocate from; never null.
  Span* hot[kClasses] = {};
  Atomic<uint64_t> owner{kNobody};
  ReusableSet<Span> reusable[kClasses];
  Mutex lock{kInnerRank};  // used if this is a CLAB
  uint32_t index = 0;
  uint32_t openings = 0;  // this and the next two: guarded by the lock of all LABs
  uint32_t users = 0;
  Lab* next_idle = nullptr;
  Atomic<uint64_t> events[kEvents];

  void note(Event event) {
    events[static_cast<unsigned>(event)].fetch_add(1, kRelaxed);  // relaxed: a statistic
  }
};

// The LAB of threads that have none of their own.
NEAR_HIDDEN extern Lab no_lab;

// The calling thread's LAB; &no_lab before it has one, after it has left it, and with CLABs.
NEAR_HIDDEN extern __thread Lab* current_lab NEAR_TLS_INITIAL_EXEC;
// With CLABs: the LAB that the thread shares, or null.
NEAR_HIDDEN extern __thread Lab* core_lab NEAR_TLS_INITIAL_EXEC;

bool reserve_labs();

// A LAB for the calling thread; false if memory is refused.
bool enter_lab();
void leave_lab();

// The LAB that an owner word names, even if another thread has it now.
Lab& lab_of(uint64_t owner);

// The largest number of LABs that were open at the same time.
uint32_t most_labs();

// How many LABs have been made: those with greater numbers have put nothing into the pool.
uint32_t labs_made();

uint64_t count_events(Event event);

// Called around fork. In the child the LABs of the threads that are gone are terminated.
void lock_labs_for_fork();
void unlock_labs_after_fork(bool child);

// The view of LABs that life_cycle.h uses; `acting` is the LAB of the calling thread.
class Labs {
 public:
  explicit Labs(Lab& acting) : acting_(acting) {}

  bool is_terminated(uint64_t owner) const {
    return lab_of(owner).owner.load(kAcquire) != owner;  // pairs: scalloc-lab-owner
  }
  void record_adoption() const { acting_.note(Event::spans_adopted); }
  ReusableSet<Span>& set(uint64_t owner, uint32_t size_class) const {
    return lab_of(owner).reusable[size_class];
  }
  static int32_t blocks(uint32_t size_class) {
    return static_cast<int32_t>(kSizeClasses[size_class].blocks);
  }
  static int32_t reusable_at(uint32_t size_class) { return settings.reusable_at[size_class]; }

 private:
  Lab& acting_;
};

}  // namespace near::design::scalloc
