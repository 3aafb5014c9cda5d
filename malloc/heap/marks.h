// Which free blocks of the small classes a heap has marked: the request that takes a marked block
// is sampled by the profiler (profile/).
//
// A small request takes a block from a list, where a carve, a free or a splice put it before. While
// the profiler runs, each block gets one trial when it comes onto the list of its span: it is
// marked with the chance p = 1 - exp(-block size / mean). A mark is a bit in the block's link that
// makes the fast path of malloc fail (span/free_list.h). So malloc and free count nothing, and have
// not one instruction more; and a trial costs nothing for most blocks, because the distance to the
// next mark is drawn: among carved blocks it is counted off, and among frees the count of the span
// (base/free_count.h) ends there.
//
// Invariant: while the heap marks, let a span be tried if span.tried == run(). Each block on the
// list of a tried span has had exactly one trial of this run since it came there, and trials are
// independent of each other and of what the program does. So whatever the program did before, the
// next request that takes a block of a tried span is sampled with the chance p. All blocks of a
// span get their trial when it becomes tried, which is before a request is served from it.
// Thread-safety: guard: the heap's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "heap/chance.h"
#include "span/layout.h"

namespace near {

class Marks {
 public:
  // The number of the profiler's run; 0: it does not run.
  uint8_t run() const { return run_; }
  // Runs have the numbers 1 to kRuns, and then 1 again; Span::tried has room for them. So a span
  // that stays cold for kRuns runs is taken for tried in the next one.
  static constexpr uint8_t kRuns = 63;

  void begin(uint8_t run, size_t mean, uint64_t seed) {
    run_ = run;
    mean_ = static_cast<double>(mean);
    seed_ = seed;
    drawn_ = 0;
    draw_distance();
  }
  void end() { run_ = 0; }

  // True if each block gets its trial when it comes onto the span's list.
  NEAR_INLINE bool has_tried(const Span& span) const { return run_ != 0 && span.tried == run_; }

  // Makes a span of a small class tried, unless it is, or the profiler does not run: each block on
  // its list gets its trial, and marks of an earlier run go.
  NEAR_INLINE void be_tried(Span& span) {
    if (unlikely(run_ != 0 && span.tried != run_)) try_all(span);
  }

  // The first `count` blocks of a list of the span, from `block` on, have just come there.
  NEAR_INLINE void add(const Span& span, Block* block, uint32_t count) {
    if (unlikely(has_tried(span))) try_first(span, block, count);
  }

  // Called when the count of a span was set, which ends at its next event. If a free whose block is
  // to be marked comes first, the count is set to end there. Sets Span::after_mark.
  NEAR_INLINE void look_ahead(Span& span) {
    span.after_mark = 0;
    if (unlikely(run_ != 0)) end_at_mark(span);
  }

  // The count of a span has ended. The block that ended it is marked if this was why, and blocks
  // beyond get their trials. Returns how many frees the event is still away; 0: it is reached.
  NEAR_INLINE uint32_t count_end(Span& span) {
    if (likely(run_ == 0 && span.after_mark == 0)) return 0;
    return mark_at_end(span);
  }
  // So many blocks were freed at once with the block that ended the count, and after it; 0 unless
  // the owner frees a batch. Owner's thread.
  void set_beyond(uint32_t blocks) { beyond_ = blocks; }

  // Trials of up to `blocks` blocks of `size` bytes, until one is marked. Returns its number from
  // 1 on; 0: none is.
  NEAR_INLINE uint32_t draw(uint32_t size, uint32_t blocks) {
    const uint64_t bytes = uint64_t{size} * blocks;
    if (unlikely(to_mark_ < bytes)) return reach_mark(size);
    to_mark_ -= bytes;
    return 0;
  }

 private:
  NEAR_NOINLINE void try_all(Span& span);
  NEAR_NOINLINE void try_first(const Span& span, Block* block, uint32_t count);
  NEAR_NOINLINE void end_at_mark(Span& span);
  NEAR_NOINLINE uint32_t mark_at_end(Span& span);
  NEAR_NOINLINE uint32_t reach_mark(uint32_t size);
  void draw_distance() {
    to_mark_ = static_cast<uint64_t>(interval_of(random_bits(seed_, drawn_++), mean_));
  }

  uint8_t run_ = 0;
  uint32_t beyond_ = 0;
  double mean_ = 1;
  uint64_t seed_ = 0;
  uint64_t drawn_ = 0;
  uint64_t to_mark_ = 0;
};

}  // namespace near
