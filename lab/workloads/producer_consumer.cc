// One thread allocates, another frees: every free is remote. It models a pipeline stage or a
// logger. The ring is bounded, so that live blocks are few and memory use depends on the allocator.
// Our own.
#include <atomic>
#include <deque>

#include "workload.h"

namespace {

// A queue of one producer and one consumer. Invariant: taken <= put <= taken + capacity.
class Ring {
 public:
  explicit Ring(size_t capacity) : slots_(capacity) {}

  void put(const workload::Block& block) {
    const size_t at = put_.load(std::memory_order_relaxed);  // relaxed: only the producer writes it
    wait_until([&] { return at - taken_.load(std::memory_order_acquire) < slots_.size(); });
    slots_[at % slots_.size()] = block;
    put_.store(at + 1, std::memory_order_release);  // publishes the slot
  }

  workload::Block take() {
    // relaxed: only the consumer writes it
    const size_t at = taken_.load(std::memory_order_relaxed);
    wait_until([&] { return put_.load(std::memory_order_acquire) != at; });
    const workload::Block block = slots_[at % slots_.size()];
    taken_.store(at + 1, std::memory_order_release);  // gives the slot back
    return block;
  }

 private:
  template <typename Condition>
  static void wait_until(Condition condition) {
    for (int spins = 0; !condition(); ++spins) {
      if (spins > 100) std::this_thread::yield();
    }
  }

  alignas(128) std::atomic<size_t> put_{0};
  alignas(128) std::atomic<size_t> taken_{0};
  alignas(128) workload::Blocks slots_;
};

}  // namespace

int main(int argc, char** argv) {
  size_t pairs = 1, blocks = 100'000'000, capacity = 4096, low = 16, high = 512;
  workload::Workload workload("producer_consumer", "one thread allocates, another one frees");
  workload.count("--pairs", pairs, "pairs of threads");
  workload.count("--blocks", blocks, 10'000'000, "blocks that pass through each pair");
  workload.count("--capacity", capacity, "blocks of a pair that can be under way");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  std::deque<Ring, workload::Mapped<Ring>> rings;
  for (size_t i = 0; i < pairs; ++i) rings.emplace_back(capacity);
  workload.run(2 * pairs, [&](workload::Worker& worker, size_t index) {
    Ring& ring = rings[index / 2];
    if (index % 2 == 0) {
      workload::Random random(index + 1);
      for (size_t i = 0; i < blocks; ++i) ring.put(worker.allocate(sizes.pick(random)));
    } else {
      for (size_t i = 0; i < blocks; ++i) worker.release(ring.take());
    }
  });
  return workload.report();
}
