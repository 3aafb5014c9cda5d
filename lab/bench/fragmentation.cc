// A large heap of mixed small blocks of which nine in ten are freed: what stays resident?
// Freed in contiguous stretches of allocation order (a phase ends) or at random (a cache thins
// out). RSS is given less what the process had before the heap, the table of blocks included.
// Invariant: the table is mapped, not allocated, and resident before the first measurement.
#include <sys/mman.h>

#include "bench.h"

namespace {

struct Block {
  char* address;
  uint32_t size;
};

// Every block goes but the first tenth of each of `stretches` equal parts of the heap.
bool freed_in_stretches(size_t index, size_t count, size_t stretches) {
  const size_t part = count / stretches;
  return index % part >= part / 10;
}

}  // namespace

int main(int argc, char** argv) {
  size_t megabytes = 80, stretches = 10, sleep_ms = 2000, low = 16, high = 1024;
  std::string pattern = "stretches";
  bench::Bench bench("fragmentation", "frees nine tenths of a heap of small blocks and sleeps");
  bench.option("--megabytes", megabytes, "size of the heap, 10^6 bytes");
  bench.option("--pattern", pattern, "stretches or random");
  bench.option("--stretches", stretches, "number of stretches that are freed");
  bench.option("--sleep", sleep_ms, "how long it sleeps then, in ms");
  bench.option("--low", low, "smallest size");
  bench.option("--high", high, "largest size");
  bench.parse(argc, argv);

  const size_t total = megabytes * 1'000'000, capacity = total / low;
  void* const mapped = mmap(nullptr, capacity * sizeof(Block), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return 1;
  Block* const table = static_cast<Block*>(mapped);
  const bench::Sizes sizes(low, high);
  size_t count = 0;
  bench::Random draw(1);
  for (size_t sum = 0; sum < total; ++count) {
    table[count].size = static_cast<uint32_t>(sizes.pick(draw));
    sum += table[count].size;
  }
  const struct memory_use start = own_memory();

  const double start_time = bench::now();
  for (size_t i = 0; i < count; ++i) table[i].address = bench::take(table[i].size);
  const struct memory_use full = own_memory();
  bench::Random choose(2);
  size_t live = 0, live_blocks = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool is_freed =
        pattern == "random" ? choose.below(10) != 0 : freed_in_stretches(i, count, stretches);
    if (is_freed) {
      std::free(table[i].address);
    } else {
      live += table[i].size, ++live_blocks;
    }
  }
  const double seconds = bench::now() - start_time;
  const struct memory_use freed = own_memory();
  std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  const struct memory_use rested = own_memory();

  const auto heap_kib = [&](const struct memory_use& memory) {
    return static_cast<double>(memory.rss_kib - start.rss_kib);
  };
  bench.add("live_kib", static_cast<double>(live) / 1024);
  bench.add("heap_full_kib", heap_kib(full));
  bench.add("heap_freed_kib", heap_kib(freed));
  bench.add("heap_rested_kib", heap_kib(rested));
  bench.add("pte_rested_kib", static_cast<double>(rested.pte_kib));
  bench.add("rss_rested_kib", static_cast<double>(rested.rss_kib));
  return bench.report(seconds, count, live + live_blocks);
}
