// How all heaps take part in a run of the profiler: they mark small blocks (heap/marks.h), and
// count the bytes of the others (heap/counted.h).
// Thread-safety: the caller holds the profiler's lock, and no heap's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near {

class Heap;

namespace profile {

// All heaps take part in a new run, in which a block is sampled in `mean` bytes.
void begin_run(size_t mean, uint64_t seed);
// No heap takes part any more. Marks stay in the lists: each costs one slow path.
void end_run();
// Makes a heap that was made since take part in the run.
void join_run(Heap& heap);

}  // namespace profile
}  // namespace near
