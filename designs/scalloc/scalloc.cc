#include "designs/scalloc/scalloc.h"

#include <cstring>

#include "designs/scalloc/span_pool.h"
#include "front/invalid.h"

namespace near::design::scalloc {
namespace {

constexpr size_t kFrontListBytes = 8 * kKiB;  // as of SuperMalloc's threads

constexpr const char* kEventNames[kEvents] = {
    "spans from the arena",
    "spans from the own stack",
    "spans from the search",
    "spans put in the pool",
    "reusable spans made hot",
    "orphaned spans adopted",
    "spans emptied by allocation",
    "refills from the remote list",
    "madvise calls",
    "batches of fresh spans",
    "guards moved",
};

// The present contents of all spans.
struct Census {
  uint64_t in_use = 0;         // bytes in blocks that are handed out
  uint64_t fragmentation = 0;  // bytes of the other blocks of spans in the frontend [Aigner15 §4]
  uint64_t hot = 0, floating = 0, reusable = 0, free = 0;
};

Census take_census() {
  Census census;
  for_each_span([&](const Span& span) {
    const State state = span.epoch.state();
    if (state == State::expected) return;
    if (state == State::free) {
      census.free++;
      return;
    }
    (state == State::hot        ? census.hot
     : state == State::floating ? census.floating
                                : census.reusable)++;
    const SizeClass& shape = kSizeClasses[span.size_class.load(kRelaxed)];  // relaxed: a statistic
    // While a span is hot the two counts were read at different moments.
    const int32_t counted = free_blocks(span);
    const uint64_t free = counted < 0 ? 0 : min_of(static_cast<uint64_t>(counted), shape.blocks);
    census.fragmentation += free * shape.size;
    census.in_use += (shape.blocks - free) * shape.size;
  });
  return census;
}

}  // namespace

constinit MappedBlocks huge;

std::span<Switch> Scalloc::switches() { return scalloc::switches(); }

bool Scalloc::start() {
  apply_switches();
  return reserve_labs() && start_span_pool() &&
         (!settings.list_front || Front::start(kFrontListBytes));
}

bool Scalloc::thread_enter() {
  if (!enter_lab()) return false;
  if (!settings.list_front || Front::enter()) return true;
  leave_lab();
  return false;
}

void Scalloc::thread_exit() {
  if (settings.list_front) Front::leave();
  leave_lab();
}

void* Scalloc::allocate_aligned(size_t alignment, size_t size) {
  if (alignment <= kSpanHeader && size <= kLargestBlock) {
    return take_block(class_of_aligned(size, alignment));
  }
  // No block is aligned further, but a block larger by the alignment contains an aligned one.
  if (alignment >= kLargestBlock || size > kLargestBlock - alignment) {
    return huge.take(size, alignment);
  }
  void* block = take_block(class_of(size + alignment));
  if (block == nullptr) return nullptr;
  const size_t inner = align_up(reinterpret_cast<uintptr_t>(block), alignment);
  span_of(block)->has_inner_blocks.store(true, kRelaxed);  // relaxed: passed on with the block
  return reinterpret_cast<void*>(inner);
}

void* Scalloc::allocate_zeroed(size_t size) {
  void* block = allocate(size);
  if (block != nullptr && size <= kLargestBlock) memset(block, 0, size);
  return block;
}

void Scalloc::deallocate_elsewhere(void* pointer) {
  if (huge.put(pointer)) return;
  if (arena.contains(pointer)) return report_invalid(pointer, "it is free already");
  release_foreign(pointer);
}

size_t Scalloc::usable_size(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) - arena.start() >= arena.taken()) {
    return huge.usable(pointer);
  }
  const auto* block = static_cast<const char*>(start_of_block(pointer));
  if (block == nullptr) return 0;
  return span_of(pointer)->size - static_cast<size_t>(static_cast<const char*>(pointer) - block);
}

bool Scalloc::trim() {
  if (settings.list_front) Front::flush();
  drop_empty_spans();
  return trim_pool();
}

Footprint Scalloc::footprint() {
  const Census census = take_census();
  const MappedBlocks::Totals of_huge = huge.totals();
  // Blocks may move between lists and spans while they are counted.
  const uint64_t in_use = census.in_use - min_of(census.in_use, Front::totals().bytes);
  return {arena.size() + of_huge.bytes, arena.committed() + of_huge.bytes, in_use + of_huge.bytes,
          of_huge.bytes, of_huge.blocks};
}

size_t Scalloc::counters(Counter* out) {
  size_t count = 0;
  for (unsigned i = 0; i < kEvents; i++) {
    out[count++] = {kEventNames[i], count_events(static_cast<Event>(i))};
  }
  const Census census = take_census();
  out[count++] = {"span-internal fragmentation", census.fragmentation};
  out[count++] = {"hot spans", census.hot};
  out[count++] = {"floating spans", census.floating};
  out[count++] = {"reusable spans", census.reusable};
  out[count++] = {"free spans", census.free};
  size_t stacks = 0;
  for (uint32_t i = 0; i < kRealSpans; i++) stacks += used_stacks(i);
  out[count++] = {"span-pool stacks used", stacks};
  out[count++] = {"most LABs at once", most_labs()};
  out[count++] = {"huge objects", huge.totals().blocks};
  const Front::Totals front = Front::totals();
  out[count++] = {"front lists filled", front.filled};
  out[count++] = {"front lists emptied", front.emptied};
  out[count++] = {"blocks in front lists", front.blocks};
  return count;
}

void Scalloc::lock_for_fork() {
  lock_labs_for_fork();
  huge.lock().lock_for_fork();
  Front::lock().lock_for_fork();
}

void Scalloc::unlock_after_fork(bool child) {
  if (child) Front::adopt_others();
  Front::lock().unlock_for_fork();
  huge.lock().unlock_for_fork();
  unlock_labs_after_fork(child);
  if (child)
    settings.asymmetric = register_membarrier();  // the parent's registration is not inherited
}

}  // namespace near::design::scalloc
