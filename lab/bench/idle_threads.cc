// Many threads that once used every size, freed everything, and now sleep: a thread pool at night.
// What they retain is what the allocator keeps for them.
#include "bench.h"

int main(int argc, char** argv) {
  int threads = 200;
  size_t blocks = 4, largest = 32768, sleep_ms = 2000;
  bench::Bench bench("idle_threads", "threads touch every size, free everything and sleep");
  bench.option("--threads", threads, "threads");
  bench.option("--blocks", blocks, "blocks of each size in each thread");
  bench.option("--largest", largest, "largest size");
  bench.option("--sleep", sleep_ms, "how long they sleep, in ms");
  bench.parse(argc, argv);

  std::vector<size_t> sizes;
  for (size_t size = 16; size <= largest; size += std::max<size_t>(16, size / 8))
    sizes.push_back(size);
  std::barrier all(threads + 1);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&] {
      all.arrive_and_wait();  // all stacks are there
      all.arrive_and_wait();
      std::vector<char*> held;
      for (const size_t size : sizes) {
        for (size_t n = 0; n < blocks; ++n) held.push_back(bench::take(size));
      }
      for (char* block : held) std::free(block);
      held = {};
      all.arrive_and_wait();  // everything is freed
      all.arrive_and_wait();  // measured
    });
  }
  all.arrive_and_wait();
  const struct memory_use before = own_memory();
  all.arrive_and_wait();
  const double start = bench::now();
  all.arrive_and_wait();
  const double seconds = bench::now() - start;
  std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  const struct memory_use after = own_memory();
  all.arrive_and_wait();
  for (std::thread& thread : running) thread.join();

  const double retained =
      static_cast<double>(after.rss_kib + after.pte_kib - before.rss_kib - before.pte_kib);
  bench.add("rss_before_kib", static_cast<double>(before.rss_kib));
  bench.add("rss_after_kib", static_cast<double>(after.rss_kib));
  bench.add("pte_after_kib", static_cast<double>(after.pte_kib));
  bench.add("retained_kib_per_thread", retained / threads);
  const uint64_t operations = sizes.size() * blocks * static_cast<size_t>(threads);
  return bench.report(seconds, operations, operations);
}
