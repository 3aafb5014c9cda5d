// One thread allocates, another frees: every free is remote. Models a pipeline stage or a logger.
// The ring is bounded, so that the two stay in step and memory is what the allocator makes of it.
#include <atomic>

#include "bench.h"

namespace {

// Single producer, single consumer. Invariant: taken <= put <= taken + capacity.
class Ring {
 public:
  explicit Ring(size_t capacity) : slots_(capacity) {}

  void put(char* block) {
    const size_t at = put_.load(std::memory_order_relaxed);  // relaxed: only the producer writes it
    wait_until([&] { return at - taken_.load(std::memory_order_acquire) < slots_.size(); });
    slots_[at % slots_.size()] = block;
    put_.store(at + 1, std::memory_order_release);  // publishes the slot
  }

  char* take() {
    const size_t at =
        taken_.load(std::memory_order_relaxed);  // relaxed: only the consumer writes it
    wait_until([&] { return put_.load(std::memory_order_acquire) != at; });
    char* const block = slots_[at % slots_.size()];
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

  alignas(64) std::atomic<size_t> put_{0};
  alignas(64) std::atomic<size_t> taken_{0};
  alignas(64) std::vector<char*> slots_;
};

}  // namespace

int main(int argc, char** argv) {
  size_t blocks = 10'000'000, capacity = 4096, low = 16, high = 512;
  bench::Bench bench("producer_consumer", "one thread allocates, another one frees");
  bench.option("--blocks", blocks, "blocks that pass through");
  bench.option("--capacity", capacity, "blocks that can be under way");
  bench.option("--low", low, "smallest size");
  bench.option("--high", high, "largest size");
  bench.parse(argc, argv);

  const bench::Sizes sizes(low, high);
  Ring ring(capacity);
  uint64_t checksum = 0;
  const double seconds = bench::run_threads(2, [&](int index) {
    if (index == 0) {
      bench::Random random(1);
      for (size_t i = 0; i < blocks; ++i) ring.put(bench::take(sizes.pick(random)));
    } else {
      for (size_t i = 0; i < blocks; ++i) {
        char* const block = ring.take();
        checksum += static_cast<unsigned char>(block[0]);
        std::free(block);
      }
    }
  });
  return bench.report(seconds, blocks, checksum);
}
