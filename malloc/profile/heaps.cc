#include "profile/heaps.h"

#include "heap/chance.h"
#include "heap/registry.h"

namespace near::profile {
namespace {

// Guard: the profiler's lock.
struct Run {
  uint8_t number = 0;  // of the last one
  size_t mean = 1;
  uint64_t seed = 0;
};
constinit Run run;

}  // namespace

// A heap that takes part goes on with its numbers: if it began again, it would draw the same ones
// for each thread that takes it.
void join_run(Heap& heap) {
  constexpr uint64_t kApart = uint64_t{1} << 63;  // other numbers than those of countdowns
  const LockGuard guard(heap.lock);
  if (heap.marks.run() == run.number) return;
  heap.marks.begin(run.number, run.mean, random_bits(run.seed, kApart + heap.id()));
  heap.class_of_small.close_all();
}

void begin_run(size_t mean, uint64_t seed) {
  run = {static_cast<uint8_t>(run.number % Marks::kRuns + 1), mean, seed};
  for (uint32_t id = 0; id < heap_count(); id++) {
    Heap& heap = *heap_by_id(id);
    heap.countdown.reset();
    join_run(heap);
  }
}

void end_run() {
  for (uint32_t id = 0; id < heap_count(); id++) {
    Heap& heap = *heap_by_id(id);
    const LockGuard guard(heap.lock);
    heap.marks.end();
    heap.class_of_small.open_all();
  }
}

}  // namespace near::profile
