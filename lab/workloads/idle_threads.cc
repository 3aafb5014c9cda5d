// Many threads use every size once, free everything, and then sleep, as in an idle thread pool. It
// measures the memory that the allocator keeps for them. Our own.
#include <barrier>

#include "own_memory.h"
#include "workload.h"

namespace {

// Each size exceeds the one before by an eighth, at least by 16 bytes.
std::vector<size_t> sizes_up_to(size_t largest) {
  std::vector<size_t> sizes;
  for (size_t size = 16; size <= largest; size += std::max<size_t>(16, size / 8)) {
    sizes.push_back(size);
  }
  return sizes;
}

void use_once(workload::Worker& worker, const std::vector<size_t>& sizes, size_t blocks) {
  workload::Blocks held;
  held.reserve(sizes.size() * blocks);
  for (const size_t size : sizes) {
    for (size_t n = 0; n < blocks; ++n) held.push_back(worker.allocate(size));
  }
  for (const workload::Block& block : held) worker.release(block);
}

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 200, blocks = 4, largest = 32768, sleep_ms = 2000;
  workload::Workload workload("idle_threads", "threads touch all sizes, free everything and sleep");
  workload.count("--threads", threads, "threads");
  workload.count("--blocks", blocks, "blocks of each size in each thread");
  workload.count("--largest", largest, "largest size");
  workload.option("--sleep", sleep_ms, 500, "how long they sleep, in ms");
  workload.parse(argc, argv);
  workload.require(largest >= 16, "--largest is below 16");

  const std::vector<size_t> sizes = sizes_up_to(largest);
  std::vector<workload::Worker> workers;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(i);
  std::barrier all(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      workload::settle(i);
      all.arrive_and_wait();  // all stacks exist
      all.arrive_and_wait();
      use_once(workers[i], sizes, blocks);
      all.arrive_and_wait();  // everything is freed
      all.arrive_and_wait();  // measured
    });
  }
  all.arrive_and_wait();
  const struct memory_use before = own_memory();
  workload.begin(threads + 1);
  all.arrive_and_wait();
  all.arrive_and_wait();
  workload.end();
  std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  const struct memory_use after = own_memory();
  all.arrive_and_wait();
  for (std::thread& thread : running) thread.join();

  const long retained = after.rss_kib + after.pte_kib - before.rss_kib - before.pte_kib;
  workload.add("rss_before_kib", before.rss_kib);
  workload.add("rss_after_kib", after.rss_kib);
  workload.add("pte_after_kib", after.pte_kib);
  workload.add("retained_kib_per_thread",
               static_cast<double>(retained) / static_cast<double>(threads));
  for (const workload::Worker& worker : workers) workload.join(worker);
  return workload.report();
}
