// Nine in ten blocks of a large heap of mixed small blocks are freed: how much stays resident?
// They are freed in contiguous stretches of allocation order (a phase ends) or at random (a cache
// thins out). The result has RSS less the RSS before the heap, which includes the table of blocks.
// Invariant: the table is resident before the first measurement.
// Our own.
#include "own_memory.h"
#include "workload.h"

namespace {

// Every block is freed except the first tenth of each of `stretches` equal parts of the heap.
bool freed_in_stretches(size_t index, size_t count, size_t stretches) {
  const size_t part = std::max<size_t>(1, count / stretches);
  return index % part >= part / 10;
}

// Returns blocks without addresses, whose sizes sum to `total` bytes.
workload::Blocks draw_sizes(size_t total, const workload::Sizes& sizes, size_t low) {
  workload::Random random(1);
  workload::Blocks table;
  table.reserve(total / low + 1);
  for (size_t sum = 0; sum < total; sum += table.back().size) {
    table.push_back({nullptr, sizes.pick(random)});
  }
  return table;
}

}  // namespace

int main(int argc, char** argv) {
  size_t megabytes = 80, stretches = 10, sleep_ms = 2000, low = 16, high = 1024;
  std::string pattern = "stretches";
  workload::Workload workload("fragmentation", "frees nine tenths of a heap and sleeps");
  workload.count("--megabytes", megabytes, "size of the heap, 10^6 bytes");
  workload.choice("--pattern", pattern, {"stretches", "random"}, "what is freed");
  workload.count("--stretches", stretches, "number of stretches that are freed");
  workload.option("--sleep", sleep_ms, 500, "how long it sleeps then, in ms");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const size_t total = megabytes * 1'000'000;
  workload::Blocks table = draw_sizes(total, workload::Sizes(low, high), low);
  workload::Worker worker(0);
  const struct memory_use start = own_memory();

  workload.begin();
  for (workload::Block& block : table) block = worker.allocate(block.size);
  const double asked = workload::now();
  const struct memory_use full = own_memory();
  const double reading = workload::now() - asked;
  workload::Random choose(2);
  size_t live = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    const bool is_freed = pattern == "random" ? choose.below(10) != 0
                                              : freed_in_stretches(i, table.size(), stretches);
    if (is_freed) {
      worker.release(table[i]);
      table[i] = {};
    } else {
      live += table[i].size;
    }
  }
  workload.end();
  workload.exclude(reading);
  const struct memory_use freed = own_memory();
  std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  const struct memory_use rested = own_memory();

  workload.add("live_kib", static_cast<double>(live) / 1024);
  workload.add("heap_full_kib", full.rss_kib - start.rss_kib);
  workload.add("heap_freed_kib", freed.rss_kib - start.rss_kib);
  workload.add("heap_rested_kib", rested.rss_kib - start.rss_kib);
  workload.add("pte_rested_kib", rested.pte_kib);
  workload.add("rss_rested_kib", rested.rss_kib);
  for (const workload::Block& block : table) {
    if (block.address != nullptr) worker.release(block);
  }
  workload.join(worker);
  return workload.report();
}
