#include "heap/heap.h"

#include <new>

#include "base/assert.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/probe.h"
#include "span/span.h"

namespace near {
namespace {

constexpr uint32_t kFewSpans = 4 * kChunkSlices;  // 8 MiB or more

constexpr bool is_small(unsigned size_class) { return size_class < kSmallClasses; }

}  // namespace

// --- allocation ---

void* Heap::refill(unsigned asked) {
  const LockGuard guard(lock);
  return take_locked(asked);
}

void* Heap::take_locked(unsigned asked) {
  count_visit();
  last_due = Due::no;
  if (!inbox_.empty()) drain();
  clock_.count_refill();
  if (look_again_.load(kRelaxed)) look_again();  // relaxed: a request flag
  unsigned size_class = class_of_small.in_use(asked);
  if (unlikely(should_part(size_class))) {
    class_of_small.part(size_class);
    size_class = asked;
  }
  if (unlikely(marks.run() != 0) && is_small(size_class)) open_class(size_class);
  FreeList& bin = bins[size_class];
  if (const Span* hot = hot_[size_class]; hot != nullptr && bin.ends_elsewhere(hot->start)) {
    abandon_bin(size_class);
  }
  if (!is_crowded(size_class) && bin.is_empty()) {
    if (Block* block = take_from_cold(size_class)) return block;
  }
  while (true) {
    if (bin.is_empty() && !make_ready(size_class)) return nullptr;
    if (Block* block = take_first(bin)) {
      if (!is_small(size_class)) count_taken(size_class);
      return block;
    }
    abandon_bin(size_class);
  }
}

// Takes a block of a class that is not crowded from a cold span that has few: to make the span hot,
// and cold again a few blocks later, costs more. Null if the next span to allocate from has many,
// or if there is none.
Block* Heap::take_from_cold(unsigned size_class) {
  Span* span = reusable_.first(size_class);
  if (span == nullptr || span->frees.freed() > kFewBlocks || span->local.is_empty()) return nullptr;
  count_frees(*span);
  drop_ghost(*span);
  Block* block = span->local.pop();
  if (block == nullptr) return nullptr;  // damaged: it is found where the span becomes hot
  const uint32_t freed = span->frees.freed() - 1;
  if (freed < span->shape().reuse_at) reusable_.unfile(*span);
  span->set_fast_frees(false);  // it is nearly full again
  set_count(*span, freed, next_event(*span, freed));
  return block;
}

// True if the class serves another one's requests too, and needs one span more than that is meant
// for.
bool Heap::should_part(unsigned size_class) {
  if (spans_[size_class] < kJoinedSpansMax || !class_of_small.serves_two(size_class)) return false;
  const Span* hot = hot_[size_class];
  return bins[size_class].is_empty() && (hot == nullptr || hot->uncarved == 0) &&
         find_reusable(size_class) == nullptr;
}

bool Heap::make_ready(unsigned size_class) {
  Span* span = hot_[size_class];
  if (span == nullptr || span->uncarved == 0) {
    if (span != nullptr) cool_hot(size_class, 0);
    span = find_span(size_class);
    if (span == nullptr) return false;
    heat(*span, size_class);
  } else if (Span* adopted = adopt_span(*this, size_class)) {
    // The hot span has only uncarved units left, most of them untouched. The adopted span's blocks
    // come first, because they are in memory already.
    cool_hot(size_class, count_uncarved(*span));
    span = own(adopted);
    heat(*span, size_class);
  }
  if (bins[size_class].is_empty()) {
    if (span->purged_pages > 0) shrinking_.count_wanted(*span);
    unlikely(marks.has_tried(*span)) ? carve_tried(*span) : carve(*span, bins[size_class]);
  }
  return true;
}

// Returns a span to allocate from again, or null; it stays in its list.
Span* Heap::find_reusable(unsigned size_class) {
  Span* span = reusable_.first(size_class);
  if (span != nullptr || !is_crowded(size_class)) return span;
  return reusable_.find_spent(size_class);
}

Span* Heap::find_span(unsigned size_class) {
  if (Span* span = find_reusable(size_class)) {
    reusable_.unfile(*span);
    return span;
  }
  Span* span = take_cached(size_class);
  if (span == nullptr) span = adopt_span(*this, size_class);
  if (span == nullptr) span = take_fresh(size_class);
  if (span == nullptr) span = adopt_span(*this, size_class, true);  // memory is refused
  return span == nullptr ? nullptr : own(span);
}

// Takes a span from the cache and makes it one of this class.
Span* Heap::take_cached(unsigned size_class) {
  Span* span = slices_of_next(size_class) == 1 ? cache_.take(size_class) : nullptr;
  if (span == nullptr) return nullptr;
  if (span->size_class == size_class) {
    span->kind = SpanKind::blocks;
  } else {
    form_span(*span, size_class);
    set_count(*span, span->shape().capacity, span->shape().capacity);
  }
  span->remote.open(id_, span->node, size_class);
  return span;
}

// The length of the next span of a class. Long spans have less waste, and come and go less often;
// but where a heap has few blocks of each size, most of a long span is memory that other classes
// could use.
uint32_t Heap::slices_of_next(unsigned size_class) const {
  const bool is_first = short_spans_[size_class] < kShortSpansMax;
  return (is_first ? kShortSpans : kSizeClasses)[size_class].slices;
}

Span* Heap::take_fresh(unsigned size_class) {
  bool zero = false;
  // Most spans of a small heap serve a few blocks each.
  const bool dense = shrinking_.spans() >= kFewSpans;
  const RunRequest run{.slices = slices_of_next(size_class), .dense = dense};
  Span* span = home_only ? take_slices_at(*shard_, run, zero) : take_slices(*shard_, run, zero);
  if (span == nullptr) return nullptr;
  form_span(*span, size_class);
  set_count(*span, span->shape().capacity, span->shape().capacity);
  span->remote.open(id_, span->node, size_class);
  return span;
}

Span* Heap::own(Span* span) {
  NEAR_ASSERT(!home_only || span->node == node_);
  span->list = &span->local;
  span->owner.store(this,
                    kRelaxed);  // relaxed: only this heap's own thread concludes anything from it
  shrinking_.count_added();
  count_span(*span, 1);
  return span;
}

void Heap::heat(Span& span, unsigned size_class) {
  count_frees(span);
  drop_ghost(span);
  const uint32_t freed = span.frees.freed() + take_back_spares(span);
  hot_[size_class] = &span;
  bins[size_class].set(span.local.head());
  span.local.clear(span.start);
  span.list = &bins[size_class];
  if (is_small(size_class)) {
    marks.be_tried(span);
    await_look(span, span.shape().capacity - freed);
    return;
  }
  span.set_fast_frees(true);
  const uint32_t capacity = span.shape().capacity;
  set_count(span, static_cast<uint32_t>(min_of(freed, capacity)), capacity);
  // A spare block that was freed a second time, without notice, is in the list twice.
  if (unlikely(freed > capacity)) abandon_list(span, {Flaw::ring, span.start});
}

// Makes the hot span of a class cold. `freed` of its blocks are free: in its bin or uncarved.
void Heap::cool_hot(unsigned size_class, uint32_t freed) {
  Span& span = *hot_[size_class];
  count_frees(span);
  take_bin(span);
  if (span.idle) idle_.remove(span);
  settle_cold(span, freed);
}

// Ends the hot state of a span: moves its free blocks from the bin back to its own list.
void Heap::take_bin(Span& span) {
  hot_[span.size_class] = nullptr;
  span.local.set(bins[span.size_class].head());
  bins[span.size_class].set(FreeList::kNoSpan);
  span.list = &span.local;
  if (SpareBlocks::is_for(span.size_class)) span.set_fast_frees(false);
}

Magazines* Heap::make_magazines() {
  const Inside inside;  // a signal handler must not make others meanwhile
  void* room = shard_->node().take_metadata(Magazines::bytes());
  if (room == nullptr) return nullptr;
  depots[node_].be_used();
  auto* made = new (room) Magazines(shard_->number(), node_);
  magazines_.store(made, kRelease);  // pairs: magazines-made
  return made;
}

// --- frees ---

void Heap::on_count(Span* span) {
  if (span->idle) return;
  if (unlikely(is_inside())) return span->frees.untick();  // the next free asks again
  const LockGuard guard(lock);
  tally(returns.counts, 1);
  // If this free was the span's last, the purge thread may have taken the span before the lock.
  // relaxed: changed under the lock
  if (span->owner.load(kRelaxed) != this || span->frees.remaining() != 0) return;
  const unsigned size_class = span->size_class;
  if (is_small(size_class)) {
    if (uint32_t left = marks.count_end(*span)) return count_on(*span, left);
    if (is_hot(*span)) return look_at_hot(*span);
  }
  settle(*span, span->frees.freed());
  if (SpareBlocks::is_for(size_class)) {
    return_spares(size_class, spares_.of(size_class).room());
  }
}

// True if more blocks were freed than the span has: `freed`, which its own thread counts, those
// that wait on the remote list, and spare ones. Reads these only if no block is live otherwise.
bool Heap::exceeds(const Span& span, uint32_t freed) const {
  const uint32_t capacity = span.shape().capacity;
  return freed >= capacity && (freed + span.remote.count() > capacity || has_spare_of(span));
}

// Moves a span with `freed` free blocks to the state and list that this number calls for, and sets
// its next event.
void Heap::settle(Span& span, uint32_t freed) {
  count_frees(span);
  if (!is_hot(span)) return settle_cold(span, freed);
  const uint32_t capacity = span.shape().capacity;
  if (unlikely(exceeds(span, freed))) return abandon_list(span, {Flaw::ring, span.start});
  clock_.count_event();
  set_count(span, freed, capacity);
  if (freed == capacity) settle_idle(span);
}

// As settle, for a cold span whose frees are counted.
void Heap::settle_cold(Span& span, uint32_t freed) {
  const SizeClass& shape = span.shape();
  clock_.count_event();
  at_rest.mark();
  if (!span.reusable && freed < shape.reuse_at) {
    if (!span.spent && is_crowded(span.size_class)) reusable_.file_spent(span);
    return set_count(span, freed, shape.reuse_at);
  }
  if (freed >= shape.capacity) {
    if (unlikely(exceeds(span, freed))) return abandon_list(span, {Flaw::ring, span.start});
    reusable_.unfile(span);
    set_count(span, freed, freed);
    retire(span);
    return;
  }
  if (!span.reusable) span.looked_at = 0;
  if (!span.reusable || span.swept) reusable_.file(span, clock_.now());
  if (!span.sparse && is_sparse(span, freed)) reusable_.mark_sparse(span);
  set_count(span, freed, next_event(span, freed));
  if (span.sparse && shall_sweep()) sweep();
}

// Counts the blocks that the owner's thread freed into a span since the last count. For a hot
// medium span, each block taken lowered freed(), so `taken` is added.
void Heap::count_frees(Span& span) {
  const uint32_t freed = span.frees.freed();
  uint64_t frees = uint64_t{freed} - span.counted;
  if (is_hot(span) && !is_small(span.size_class)) {
    uint64_t& taken = taken_[span.size_class - kSmallClasses];
    frees += taken;
    taken = 0;
  }
  span.counted = static_cast<uint16_t>(freed);
  // A fork between the two writes of count_taken can leave a negative number in the child.
  if (static_cast<int64_t>(frees) < 0) return;
  count_own_frees(span, frees);
}

void Heap::count_own_frees(const Span& span, uint64_t frees) {
  if (span.node == node_) {
    tally(returns.local, frees);
  } else if (frees > 0) {
    count_freed_apart(span.node, node_, frees);
  }
}

void Heap::count_hot() {
  for (Span* span : hot_) {
    if (span != nullptr) count_frees(*span);
  }
}

// Counts a span that comes (1) or goes (-1): short ones, and those of other nodes.
void Heap::count_span(const Span& span, int change) {
  if (span.is_short()) short_spans_[span.size_class] += static_cast<uint16_t>(change);
  uint32_t& spans = spans_[span.size_class];
  spans += static_cast<uint32_t>(change);
  if (SpareBlocks::is_for(span.size_class)) {
    spares_.of(span.size_class).set_room(SpareBlocks::share_of(spans));
  }
  if (span.node == node_) return;
  const uint32_t before = foreign_.load(kRelaxed);  // relaxed: changed under the lock
  foreign_.store(before + static_cast<uint32_t>(change), kRelaxed);  // relaxed: see has_foreign()
}

// Returns the number of free blocks at which a cold span is looked at again; it is above `freed`.
uint32_t Heap::next_event(const Span& span, uint32_t freed) const {
  const SizeClass& shape = span.shape();
  const uint32_t capacity = shape.capacity;
  if (!span.reusable) return shape.reuse_at;
  if (!is_purgeable(span)) return capacity;
  if (!span.sparse) return (capacity + 1) / 2;
  return shall_sweep() ? static_cast<uint32_t>(min_of(freed + max_of(capacity / 16, 1), capacity))
                       : capacity;
}

// Called when all blocks of a hot medium span are free.
void Heap::settle_idle(Span& span) {
  if (span.idle) return;
  if (!idle_.earns(span.size_class)) {
    count_frees(span);
    take_bin(span);
    return retire(span);
  }
  idle_.add(span);
  while (Span* surplus = idle_.take_surplus(shrinking_.spans(), has_shrunk())) {
    if (surplus->frees.freed() != surplus->shape().capacity) continue;
    count_frees(*surplus);
    take_bin(*surplus);
    retire(*surplus);
  }
}

// A span without live blocks leaves the heap. Needs the owner's rights: `shrink` walks other spans.
void Heap::retire(Span& span) {
  leave(span);
  if (has_shrunk()) shrink();
}

// As `retire`, without the owner's rights: it touches no other span and no bin.
void Heap::leave(Span& span) {
  NEAR_ASSERT(span.remote.count() == 0);
  span.remote.close();
  shrinking_.count_retired(span);
  count_span(span, -1);
  // A span on another node is not kept: it was a second choice, and a thread that takes a parked
  // heap for blocks of one node must not find it in the cache.
  if (span.slices != 1 || span.node != node_ || has_shrunk()) {
    return shard_of(span).give(&span);
  }
  span.kind = SpanKind::none;
  span.owner.store(nullptr, kRelaxed);  // relaxed: no thread holds a block of it
  if (Span* surplus = cache_.add(span)) shard_of(*surplus).give(surplus);
}

}  // namespace near
