// One thread's heap: per size class a bin, a hot span and lists of spans with enough free blocks to
// allocate from again; and an inbox.
//
// A span of the heap is in one of these states (guard: `lock`):
//   hot       hot_[class] == span; its free blocks are in bins[class]; span.list == &bins[class]
//   cold      its free blocks are in span.local; freed() is known; `reusable` or `spent`
//             if in reusable_ (heap/reusable_spans.h)
//   empty     all free: it leaves at once, to its node or to cache_ (kind == none)
// The thread allocates from bins and frees into its own spans without the lock: this is the fast
// path, which touches only bins, *span.list and span.frees. Spare blocks, and whether frees of
// their spans are fast, need no lock either (heap/spare_blocks.h). All else holds `lock`, which is
// almost never contended: the purge thread takes it to free spans for an idle owner, and fork takes
// it so that the child finds every heap between two slow paths.
//
// Why the purge thread may take a cold span from a running owner: the owner releases freed() after
// the list writes that it counts, and freed() only grows while the purge thread holds the lock. The
// same holds for the remote count. If freed + remote == capacity, no block is live, so no thread,
// not even the owner, has one to free: the claiming thread owns the span. docs/decisions/0001.
//
// A heap without a thread is parked (heap/registry.h). A thread that takes it from there and holds
// `lock` is its owner. A shared heap has no thread either: the holder of its lock is its owner.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/class_table.h"
#include "heap/counted.h"
#include "heap/counts.h"
#include "heap/event_clock.h"
#include "heap/idle_spans.h"
#include "heap/magazines.h"
#include "heap/marks.h"
#include "heap/rest.h"
#include "heap/reusable_spans.h"
#include "heap/run_cache.h"
#include "heap/run_slots.h"
#include "heap/shrinking.h"
#include "heap/span_cache.h"
#include "heap/spare_blocks.h"
#include "node/node.h"
#include "node/purge_signal.h"
#include "node/region.h"
#include "platform/topology.h"
#include "sizes/class_set.h"
#include "span/layout.h"
#include "span/span.h"
#include "sync/inbox.h"
#include "sync/mutex.h"

namespace near {

class Heap {
 public:
  constexpr Heap() = default;
  // A heap that takes its slices from `shard`.
  explicit Heap(Shard& shard) : shard_(&shard), node_(static_cast<uint8_t>(shard.node().number())) {
    class_of_small.begin();
  }

  // Free blocks of the hot spans, by class: the fast path of malloc pops here. The bin of a class
  // without a hot span holds FreeList::kNoSpan, and no thread pushes there; kEmptyBin never has a
  // block. Owner's thread.
  FreeList bins[kClasses + 1] = {};

  // It leads malloc to a bin.
  ClassTable class_of_small;

  // Returns a block of the class that was asked for, or of the one that it is joined with, from any
  // source; null if memory is refused. Owner's thread; takes the lock.
  void* refill(unsigned asked);

  // As refill. The caller holds the lock and the owner's rights.
  void* take_locked(unsigned asked);

  // The countdown of one of this heap's spans has reached zero. Owner's thread; takes the lock.
  void on_count(Span* span);

  // Called after a medium block was taken from the bin without the lock. Owner's thread.
  void count_taken(unsigned size_class) {
    hot_[size_class]->frees.untick();
    taken_[size_class - kSmallClasses]++;
  }

  // The medium blocks of a class that the thread freed and that their spans have not got back.
  // Owner's thread.
  SpareBlocks::OfClass& spares_of(unsigned size_class) { return spares_.of(size_class); }
  // True if the block is one: the thread has freed it already.
  bool is_spare(const Span& span, const Block* block) const {
    return !span.frees_are_fast() && spares_.of(span.size_class).has(block);
  }
  // True if a block of this span, whose frees are not fast, may become one. If the span has as many
  // free blocks as an eighth of a long one has blocks, and no spare one, its frees become fast.
  bool may_keep_spare(Span& span, const SpareBlocks::OfClass& spares) {
    const bool is_nearly_full = span.frees.freed() * 8 < kSizeClasses[span.size_class].capacity;
    if (unlikely(!is_nearly_full)) end_spares_of(span);
    return is_nearly_full && spares.count() < spares.room() &&
           (likely(!has_foreign()) || span.node == node_);
  }
  // Keeps a block that the thread freed, so that it does not go back to its span.
  void keep_spare(SpareBlocks::OfClass& spares, Block* block) {
    spares.put(block);
    // relaxed: a statistic with one writer
    freed_spare.store(freed_spare.load(kRelaxed) + 1, kRelaxed);
  }

  // Puts a span into the inbox: its remote list was empty and now has a block. Any thread.
  void receive(Span* span) { inbox_.push(span); }

  // Returns the heap's magazines, which it makes if there are none; null if memory is refused.
  // Owner's thread.
  Magazines* need_magazines() {
    Magazines* mine = magazines_.load(kRelaxed);  // relaxed: only the owner writes it
    return mine != nullptr ? mine : make_magazines();
  }

  // Returns a run of this length that was kept, for a large block; null if no slot has one.
  // Owner's thread.
  NEAR_INLINE Span* take_last_run(uint64_t slices) {
    Span* run = last_runs_.take(slices);
    if (run != nullptr) count_visit();
    return run;
  }

  // As take_last_run, among those that had no slot. Takes the lock.
  Span* take_run(uint32_t slices);

  // True if the run of a freed large block may be kept here. Never true of a placeholder heap.
  bool can_keep(const Span& run) const {
    return run.slices <= RunCache::kMostSlices && &run.region->shard() == shard_;
  }

  // Keeps such a run. Owner's thread; may take the lock.
  NEAR_INLINE void keep_run(Span& run) {
    run.kind = SpanKind::none;
    Span* before = last_runs_.put(run);
    if (unlikely(before != nullptr)) keep_older(*before);
    purge_signal.ask();  // so that what the thread does not need again goes back
  }

  // True if it keeps runs. Any thread: a hint.
  bool keeps_runs() const { return last_runs_.slices() > 0 || runs_.any(); }

  // Gives back the runs that the owner did not use between the last two calls. Lock held.
  void drop_unused_runs();

  // Returns a block of another heap's span that a thread freed and no span has got back; null if
  // there is none. Owner's thread.
  Block* take_put_away(unsigned size_class) {
    Magazines* mine = magazines_.load(kRelaxed);  // relaxed: only the owner writes it
    if (mine == nullptr && !depots[node_].is_empty(size_class)) mine = make_magazines();
    return mine != nullptr ? mine->take(size_class) : nullptr;
  }

  // Null until the thread frees a foreign block or takes one. Any thread.
  Magazines* magazines() const { return magazines_.load(kAcquire); }  // pairs: magazines-made

  // True if the owner took no slow path since `seen_visits` was noted.
  // relaxed: a hint
  bool is_idle() const { return seen_visits.load(kRelaxed) == visits(); }

  // Takes what other threads freed. Lock held, owner's rights.
  void drain();

  // Gives back every span without live blocks; it walks bins. Lock held, owner's rights.
  void flush();

  // Gives cached empty spans and runs to their nodes. Lock held.
  void drop_cache();

  // For an owner that does not empty its inbox: frees the cold spans in the inbox that have no live
  // block. Lock held. Returns how many spans it freed.
  uint32_t claim_for_sleeper();

  // Gives back free pages of its cold spans if its owner rests, or if it is told to. Called once
  // a round by the purge thread; any thread, without the lock.
  void sweep_if_at_rest(bool everything, uint64_t now_ms);

  // Lets hot spans of small classes leave if all their blocks are free. Lock held, owner's rights.
  void look_at_all_hot();

  // Takes a span with free blocks of the class out of this parked heap, for `adopter`. Null if
  // there is none. Lock and owner's rights held.
  Span* release_span(unsigned size_class, Heap& adopter);

  bool has_blocks(unsigned size_class) const {
    return reusable_.first(size_class) != nullptr || !bins[size_class].is_empty() ||
           (is_crowded(size_class) && reusable_.offers_spent(size_class));
  }
  // The classes of which it has free blocks. Lock held, owner's rights.
  ClassSet offers() const {
    ClassSet classes;
    for (unsigned c = 0; c < kClasses; c++) {
      if (has_blocks(c)) classes.add(c);
    }
    return classes;
  }
  bool inbox_empty() const { return inbox_.empty(); }
  // Asks the owner to look again soon which hot spans are all free. relaxed: a request flag
  void ask_to_look() { look_again_.store(true, kRelaxed); }
  uint64_t visits() const { return visits_.load(kRelaxed); }  // relaxed: a hint, or a statistic
  uint32_t id() const { return id_; }
  void set_id(uint32_t id) { id_ = id; }  // before any thread uses the heap
  Shard& shard() const { return *shard_; }
  unsigned node() const { return node_; }
  bool is_hot(const Span& span) const { return hot_[span.size_class] == &span; }
  size_t check_span(const Span& span) const;
  // How many spare blocks are none of a span of the heap that looks for them when it frees. Lock
  // held, owner's rights.
  size_t check_spares() const;
  const SpareBlocks& spares() const { return spares_; }

  // Counts what was freed into the hot spans so far (FreeCounts::local). Lock held, owner's rights.
  void count_hot();

  // Adds the bytes of cached empty spans and runs and of blocks in magazines to the sums of their
  // nodes. Lock held.
  void add_cached(uint64_t* bytes_of_node) const {
    cache_.add_bytes(bytes_of_node);
    runs_.add_bytes(bytes_of_node);
    bytes_of_node[node_] += uint64_t{last_runs_.slices()} << kSliceShift;
    if (const Magazines* mine = magazines()) mine->add_bytes(bytes_of_node);
  }

  // False if all spans of this heap lie on its node. For a parked heap, hold the registry's lock:
  // then no thread gives it spans. relaxed: a span that leaves meanwhile does no harm
  bool has_foreign() const { return foreign_.load(kRelaxed) != 0; }

  BatchCounts batches;
  LargeCounts large;

  // Counts a large block that the thread took (1) or freed (-1). Owner's thread.
  void count_large(const Span& span, int blocks) {
    const int64_t bytes = blocks * static_cast<int64_t>(span.bytes());
    // relaxed: statistics with one writer
    large.blocks.store(large.blocks.load(kRelaxed) + static_cast<uint64_t>(int64_t{blocks}),
                       kRelaxed);  // relaxed: as above
    large.bytes.store(large.bytes.load(kRelaxed) + static_cast<uint64_t>(bytes),
                      kRelaxed);  // relaxed: as above
  }

  // Adds to one of the counters that only the owner's thread writes; in a placeholder heap, which
  // has no shard, many threads do.
  void add(Atomic<uint64_t>& counter, uint64_t more) {
    if (unlikely(shard_ == nullptr)) {
      counter.fetch_add(more, kRelaxed);  // relaxed: a statistic
    } else {
      counter.store(counter.load(kRelaxed) + more, kRelaxed);  // relaxed: as above
    }
  }

  FreeCounts returns;

  // Blocks of its spans on its node that the owner's thread freed and kept. Only that thread writes
  // it; any thread may sum it.
  Atomic<uint64_t> freed_spare{0};
  // Blocks, by their node, that the owner's thread freed elsewhere: large blocks, and blocks of
  // spans that it does not own. As above.
  Atomic<uint64_t> freed_of[kMaxNodes] = {};
  void count_freed_elsewhere(unsigned node, uint64_t blocks) {
    // relaxed: a statistic with one writer
    freed_of[node].store(freed_of[node].load(kRelaxed) + blocks, kRelaxed);
  }

  // To the next sample of the profiler among what is not in lists of small blocks. Owner's thread
  SampleCountdown countdown;
  Marks marks;             // the others. Guard: lock
  Due last_due = Due::no;  // whether the small block taken last is to be sampled. Owner's thread
  // As FreeList::pop, for a request; also takes a marked block, and notes it. Owner's thread.
  NEAR_INLINE Block* take_first(FreeList& list) {
    Block* block = list.pop();
    return likely(block != nullptr) ? block : take_marked(list);
  }

  Mutex lock{Rank::heap};

  // Set under the registry's lock, before any thread uses the heap; cleared under `lock`.
  Atomic<bool> shared{false};
  bool home_only = false;  // a shared heap that takes spans of its node only

  // relaxed: with `lock` held, true stays true, and the lock orders what the last owner did
  bool is_shared() const { return shared.load(kRelaxed); }

  // What the registry knows of the heap. Guard: the registry's lock.
  struct Registration {
    Heap* next = nullptr;
    Heap* prev = nullptr;
    bool parked = false;
    // it lost its thread in a fork, perhaps between the updates of a list and its count
    bool interrupted = false;
    // pthread_self() of the thread that owns it, for tools that read the process from outside; 0:
    // none does. Guard: the owner's rights
    uintptr_t thread = 0;
    // the classes of which it had free blocks when it was parked; a hint for adopters
    ClassSet offers;
  };
  Registration registration;

  Rest at_rest;                     // whether free pages of its spans wait
  bool clean = false;               // guard: lock; it was cleaned since it was parked
  Atomic<uint64_t> seen_visits{0};  // visits() when clean_heaps last looked

 private:
  friend struct Layout;
  static constexpr uint16_t kShortSpansMax = 4;   // of a class
  static constexpr uint32_t kJoinedSpansMax = 2;  // of a class that serves two
  static constexpr uint32_t kFewBlocks = 4;
  void count_visit() { visits_.store(visits() + 1, kRelaxed); }  // relaxed: see visits()
  NEAR_NOINLINE Magazines* make_magazines();
  Block* take_from_cold(unsigned size_class);
  bool should_part(unsigned size_class);
  bool make_ready(unsigned size_class);
  Span* find_reusable(unsigned size_class);
  Span* find_span(unsigned size_class);
  Span* take_cached(unsigned size_class);
  Span* take_fresh(unsigned size_class);
  Span* own(Span* span);
  void heat(Span& span, unsigned size_class);
  void cool_hot(unsigned size_class, uint32_t freed);
  void take_bin(Span& span);
  void return_spares(unsigned size_class, uint32_t keep);
  uint32_t take_back_spares(Span& span);
  bool has_spare_of(const Span& span) const;
  NEAR_NOINLINE void end_spares_of(Span& span);
  bool exceeds(const Span& span, uint32_t freed) const;
  void look_at_hot(Span& span);
  // Counts the free blocks of the hot span of a class; walks the bin.
  uint32_t count_hot_free(unsigned size_class);
  // Notes what is wrong with the list of a span, and goes on without its blocks.
  NEAR_COLD void abandon_list(Span& span, const Damage& damage);
  // As abandon_list, for a bin whose first block could not be popped.
  NEAR_COLD void abandon_bin(unsigned size_class);
  void await_look(Span& span, uint32_t live);
  void open_class(unsigned size_class);
  void carve_tried(Span& span);
  Block* take_marked(FreeList& list);
  void count_on(Span& span, uint32_t frees);
  void await_frees(Span& span, uint32_t frees);
  void collect_remote(Span& span);
  uint32_t take_remote(Span& span);
  void settle(Span& span, uint32_t freed);
  void settle_cold(Span& span, uint32_t freed);
  void settle_idle(Span& span);
  void count_frees(Span& span);
  void count_own_frees(const Span& span, uint64_t frees);
  void count_span(const Span& span, int change);
  uint32_t slices_of_next(unsigned size_class) const;
  void set_count(Span& span, uint32_t freed, uint32_t target) {
    span.frees.set(freed, target);
    span.counted = static_cast<uint16_t>(freed);
    marks.look_ahead(span);
  }
  void retire(Span& span);
  void leave(Span& span);
  void claim(Span& span);
  uint32_t next_event(const Span& span, uint32_t freed) const;
  void look_again();
  bool shall_sweep() const;
  bool has_shrunk() const { return shrinking_.has_shrunk(reusable_.sparse()); }
  void look_for_pages(Span& span);
  uint32_t look_at_rest(Span& span);
  uint64_t sweep_at_rest(unsigned size_class, bool swept, bool (*is_over)());
  void sweep_all_at_rest(bool (*is_over)());
  void shrink();
  void sweep();
  NEAR_NOINLINE void keep_older(Span& run);

  Span* hot_[kClasses] = {};
  ReusableSpans reusable_;
  SpanCache cache_;
  RunSlots<Span> last_runs_;
  RunCache runs_;  // those that had no slot
  Atomic<Magazines*> magazines_{nullptr};
  IdleSpans idle_;
  SpareBlocks spares_;
  Shrinking shrinking_;
  uint8_t looks_[kSmallClasses] = {};  // recent looks at hot spans; each delays the next one
  // Medium blocks taken from the hot span since its frees were counted. Guard: the owner
  uint64_t taken_[kClasses - kSmallClasses] = {};
  Atomic<uint32_t> foreign_{0};  // spans on another node
  // Spans that are shorter than those of their class. Guard: lock
  uint16_t short_spans_[kClasses] = {};
  uint32_t spans_[kClasses] = {};  // of each class. Guard: lock
  EventClock clock_;
  EventClock::Time looked_when_ = 0;  // when all hot spans were last looked at, or were to be
  uint64_t looked_ms_ = 0;            // the time of the last look at a heap that had shrunk
  Shard* shard_ = nullptr;
  uint32_t id_ = 0;
  uint8_t node_ = 0;
  Atomic<uint64_t> visits_{0};  // slow paths of the owner's malloc
  Atomic<bool> look_again_{false};

  alignas(64) Inbox<Span, &Span::pending_next> inbox_;
};

}  // namespace near
