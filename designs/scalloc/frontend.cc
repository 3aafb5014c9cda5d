#include "designs/scalloc/frontend.h"

#include "designs/shared/life.h"
#include "front/invalid.h"
#include "platform/saved_errno.h"

namespace near::design::scalloc {
namespace {

// With Reclaim::allocation: pools the spans that frees emptied in the set. [Aigner15 §7.7]
void pool_empty_spans(Lab& lab, unsigned size_class) {
  const auto is_empty = [&](const Span& span) {
    return free_blocks(span) == Labs::blocks(size_class);
  };
  while (Span* span = lab.reusable[size_class].take_empty(is_empty)) {
    lab.note(Event::spans_emptied_by_allocation);
    put_in_pool(lab, *span);
  }
}

// A hot span of the class for the owner: a reusable one, or one from the pool; null if there is
// none. [Aigner15 listing 3, get_span]
Span* get_span(Lab& lab, unsigned size_class) {
  if (settings.reclaim == Reclaim::allocation) pool_empty_spans(lab, size_class);
  if (Span* span = lab.reusable[size_class].take(State::hot)) {
    lab.note(Event::spans_made_hot_again);
    return span;
  }
  Span* span = get_from_pool(lab, size_class);
  if (span == nullptr) return nullptr;
  // relaxed: the caller's LAB
  span->assign(size_class, lab.owner.load(kRelaxed), settings.event_at[size_class]);
  span->epoch.mark_hot();
  return span;
}

void refill_from_remotes(Lab& lab, Span& span) {
  const auto chain = span.remote.take_all();
  if (chain.blocks == 0) return;
  span.local.refill(chain.first, chain.blocks);
  lab.note(Event::remote_refills);
}

// Called when the local free list of the hot span is empty. [Aigner15 listing 3, allocate]
void* allocate_in(Lab& lab, unsigned size_class) {
  Span* span = lab.hot[size_class];
  if (void* block = span->take()) return block;  // with CLABs nothing has tried this yet
  if (span != &no_span && free_blocks(*span) >= settings.reusable_at[size_class]) {
    refill_from_remotes(lab, *span);
    return span->take();
  }
  Span* fresh = get_span(lab, size_class);
  if (fresh == nullptr) {
    refill_from_remotes(lab, *span);  // even a few blocks serve the request
    return span->take();
  }
  lab.hot[size_class] = fresh;
  // relaxed: the caller's LAB
  if (span != &no_span && leave_hot(Labs(lab), *span, lab.owner.load(kRelaxed), settings.reclaim)) {
    put_in_pool(lab, *span);
  }
  if (fresh->local.empty()) refill_from_remotes(lab, *fresh);
  return fresh->take();
}

Lab* lab_of_thread() { return current_lab != &no_lab ? current_lab : core_lab; }

NEAR_COLD void report(const Span& span, const void* pointer) {
  const State state = span.epoch.state();
  const bool is_free = state == State::free || state == State::expected ||
                       span.offset_of(pointer) >= span.bump.load(kRelaxed);  // relaxed: a report
  report_invalid(pointer, is_free ? "it is free already" : "it points inside a block");
}

void free_of_another(Lab& lab, Span& span, Block* block) {
  if (unlikely(!free_remote(span, block, settings.asymmetric))) {
    return report_invalid(block, "it is free already");
  }
  settle_and_pool(lab, span);
}

}  // namespace

void* allocate_slow(unsigned size_class) {
  if (size_class == 0) return allocate_block(1);
  if (current_lab != &no_lab) return allocate_in(*current_lab, size_class);
  if (core_lab != nullptr) {
    const LockGuard guard(core_lab->lock);
    return allocate_in(*core_lab, size_class);
  }
  const Stay stay;
  return stay ? allocate_block(size_class) : nullptr;
}

void deallocate_slow(void* pointer) {
  Lab* lab = lab_of_thread();
  if (lab == nullptr) {
    const Stay stay(Errand::free);
    if (stay) deallocate_slow(pointer);
    return;
  }
  Span& span = *span_of(pointer);
  auto* block = static_cast<Block*>(start_of_block(pointer));
  if (unlikely(block == nullptr)) return report(span, pointer);
  // Another thread of a CLAB may have adopted the span. pairs: scalloc-owner
  if (span.owner.load(kAcquire) != lab->owner.load(kRelaxed)) {  // relaxed: the caller's LAB
    return free_of_another(*lab, span, block);
  }
  if (lab == core_lab) lab->lock.lock();
  const bool repeated = span.local.is_head(block);
  if (!repeated) free_local(*lab, span, block);
  if (lab == core_lab) lab->lock.unlock();
  if (unlikely(repeated)) report_invalid(pointer, "it is free already");
}

void settle_and_pool(Lab& lab, Span& span) {
  const SavedErrno saved;
  // relaxed: the caller's LAB
  if (settle(Labs(lab), span, lab.owner.load(kRelaxed), settings.reclaim)) put_in_pool(lab, span);
}

void drop_hot(Lab& lab, unsigned size_class) {
  Span* span = lab.hot[size_class];
  if (span == &no_span) return;
  lab.hot[size_class] = &no_span;
  // relaxed: the caller's LAB
  if (leave_hot(Labs(lab), *span, lab.owner.load(kRelaxed), settings.reclaim)) {
    put_in_pool(lab, *span);
  }
}

void drop_empty_spans() {
  Lab* lab = lab_of_thread();
  if (lab == nullptr) return;
  if (lab == core_lab) lab->lock.lock();
  for (unsigned i = 1; i < kClasses; i++) {
    const Span* span = lab->hot[i];
    if (span != &no_span && free_blocks(*span) == Labs::blocks(i)) drop_hot(*lab, i);
    if (settings.reclaim == Reclaim::allocation) pool_empty_spans(*lab, i);
  }
  if (lab == core_lab) lab->lock.unlock();
}

void* start_of_block(const void* pointer) {
  Span& span = *span_of(pointer);
  uint32_t offset = span.offset_of(pointer);
  if (offset >= span.bump.load(kRelaxed)) return nullptr;  // relaxed: as Span::holds
  if (!starts_block(offset, span.reciprocal)) {
    // relaxed: passed on with the inner address
    if (!span.has_inner_blocks.load(kRelaxed)) return nullptr;
    offset = block_index(offset, span.reciprocal) * span.size;
  }
  return span.payload() + offset;
}

}  // namespace near::design::scalloc
