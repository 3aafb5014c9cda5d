// The sampling profiler: which code allocated the memory that is live, was live at the peak, or was
// ever allocated, and which threads freed it.
//
// While it runs, heaps mark small blocks in their free lists at random (heap/marks.h), and count
// the bytes of larger ones (heap/counted.h). Every 512 KiB or so a block is sampled: its stack is
// noted, and the block is put where its free will be noticed (profile/spans.h). The front end calls
// the functions of the first part.
//
// Thread-safety: any thread; the lock's rank is above that of heaps' locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "profile/running.h"
#include "profile/table.h"
#include "sync/mutex.h"

namespace near {

class Heap;
class Shard;
struct Span;

namespace profile {

extern NEAR_HIDDEN RunningFlag running;
NEAR_INLINE bool is_running() { return running.is_set(); }

// --- for the front end ---

// The thread that allocates or frees.
struct Actor {
  uint32_t heap;  // its number; kNoHeap: the thread has none
  unsigned node;  // that it runs on
};

// Called when the heap's countdown has ended by `size` bytes. False if that was no sample, because
// the heap had not drawn an interval yet.
bool begin_sample(Heap& heap, size_t size);
// Called when the heap has served a small request by a marked block. False if the heap is taking a
// sample.
bool begin_marked_sample(Heap& heap);
// Draws the next interval. Until then the heap takes no samples: what the unwinder allocates.
void end_sample(Heap& heap);

// Takes and records a sampled block of a class, with the stack of the caller. Null: the caller
// takes an ordinary block, and only the allocation is recorded. `strict`: as SampledSpans::take.
NEAR_NOINLINE void* take_sampled(size_t size, unsigned size_class, Shard& shard, Actor actor,
                                 bool strict);

// Records a large block that was allocated.
NEAR_NOINLINE void record_large(Span& span, size_t size, Actor actor);

// A sampled large block has grown in place. It stays the same block, and what it grew by was
// allocated. A block of s bytes is sampled with the chance p(s), and one that was not is sampled
// when it grows to t bytes with the chance that its new bytes start a sample: so it is sampled with
// p(t) then. Each of the two counts for t / p(t) from then on, the first for as much more as that
// is than s / p(s): on average the sums grow by t - s. False if no sample of this run is there.
bool record_growth(Span& span, size_t size);

// Records the free of a sampled block. A block of a class is given back here; the caller frees a
// large one. False if no sampled block is live there.
bool release_sampled(Span& span, void* block, Actor actor);

// Bytes of a small or medium sampled block that the program may use; 0 if none is live there.
size_t sampled_size(const void* block);

// Called by the thread of a heap that has just been published: it takes part if the profiler runs.
NEAR_NOINLINE void count_new_heap(Heap& heap);
NEAR_INLINE void look_at_new_heap(Heap& heap) {
  if (running.look_after_publishing()) count_new_heap(heap);
}

// Keeps a copy of all sites in the file from now on (profile/kept.h). By one thread, after a start.
// `list`: as Kept::prepare; not in a child of fork, where another thread of the parent may have had
// the dynamic linker's lock. False if the system refuses.
bool keep_in(int file, bool list);
// The file that is kept stays as it is. False if there was none.
bool stop_keeping();

// Called around fork.
void lock_for_fork();
void unlock_for_fork();
// Called in a child of fork, which has only the thread that forked.
void forget_other_threads();

// --- for users ---

enum class Started : uint8_t { yes, already, refused };
// Samples from now on, one block in `mean` bytes. Earlier results are forgotten.
Started start(size_t mean, uint64_t seed);
// False if it did not run. What was recorded stays, and frees are recorded still.
bool stop();

// What a sampled block stands for.
struct Estimate {
  Weight weight;
  double variance;  // of weight.bytes
};

inline constexpr size_t kMostOwnBytes = size_t{1} << 20;

struct Summary {
  bool any;  // it was started once
  bool running;
  size_t mean;
  uint64_t started_ms;  // coarse_now_ms()
  uint64_t started_at;  // seconds since 1970
  uint64_t stopped_ms;  // coarse_now_ms(), while it runs the present one
  uint64_t samples;
  uint32_t live_samples;
  uint32_t sites;
  uint64_t dropped_stacks;  // samples whose stack had no room, or was forgotten
  uint64_t dropped_blocks;  // samples that are not followed
  uint64_t own_bytes;       // the profiler's, at most kMostOwnBytes
  uint64_t slice_bytes;     // of the slices in which small and medium sampled blocks are
  Weight live;
  Weight peak;
};
Summary summary();

// While one exists, the numbers of sites, and of the addresses of their frames, stay: no site is
// folded (table.h).
class HeldSites {
 public:
  HeldSites();
  ~HeldSites();
  HeldSites(const HeldSites&) = delete;
  HeldSites& operator=(const HeldSites&) = delete;
};

// A copy of a site with its frames. False if there is no site of that number.
struct SiteCopy {
  Site site;
  uintptr_t frames[kMaxFrames];
  uint32_t numbers[kMaxFrames];  // of the frames' addresses
};
bool copy_site(uint32_t number, SiteCopy& out);

// A copy of the sample of a number below Table::kSamples. False if no live block of a site has it.
struct SampleCopy {
  Sample sample;
  Estimate estimate;
};
bool copy_sample(uint32_t number, SampleCopy& out);

// The number of the address of a frame, from 0 to Table::kAddresses - 1, leads to it; 0: none.
uintptr_t frame_address(uint32_t number);

// The profiler's memory; null if there is none.
const void* own_memory();

}  // namespace profile
}  // namespace near
