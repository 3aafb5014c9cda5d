// Many threads use every size once, free everything, and then sleep, as in an idle thread pool. It
// measures the memory that the allocator keeps for them. With `--working N`, N more threads replace
// blocks of their own while the others sleep: it then also measures what sleeping threads cost
// those that work. Our own.
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

struct Run {
  size_t threads = 200, blocks = 4, largest = 32768, sleep_ms = 2000;  // those that sleep
  size_t working = 0, operations = 20'000;                             // those that work
  std::vector<size_t> sizes = {};

  size_t all_threads() const { return threads + working; }
};

constexpr size_t kHeld = 100;  // live blocks of a thread that works

void replace_blocks(workload::Worker& worker, size_t index, size_t operations) {
  const workload::Sizes sizes(16, 4096);
  workload::Random random(index + 1);
  workload::Blocks held(kHeld);
  for (workload::Block& block : held) block = worker.allocate(sizes.pick(random));
  for (size_t i = 0; i < operations; ++i) replace_one(worker, held, sizes, random);
  for (const workload::Block& block : held) worker.release(block);
}

void parse(workload::Workload& workload, Run& run, int argc, char** argv) {
  workload.count("--threads", run.threads, "threads");
  workload.count("--blocks", run.blocks, "blocks of each size in each thread");
  workload.count("--largest", run.largest, "largest size");
  workload.option("--sleep", run.sleep_ms, 500, "how long they sleep, in ms");
  workload.option("--working", run.working, "more threads, which work while the others sleep");
  workload.count("--operations", run.operations, "replacements by one of these");
  workload.parse(argc, argv);
  workload.require(run.largest >= 16, "--largest is below 16");
  run.sizes = sizes_up_to(run.largest);
}

void add_memory(workload::Workload& workload, const memory_use& before, const memory_use& after,
                size_t threads) {
  const long retained = after.rss_kib + after.pte_kib - before.rss_kib - before.pte_kib;
  workload.add("rss_before_kib", before.rss_kib);
  workload.add("rss_after_kib", after.rss_kib);
  workload.add("pte_after_kib", after.pte_kib);
  workload.add("retained_kib_per_thread",
               static_cast<double>(retained) / static_cast<double>(threads));
}

}  // namespace

int main(int argc, char** argv) {
  Run run;
  workload::Workload workload("idle_threads", "threads touch all sizes, free everything and sleep");
  parse(workload, run, argc, argv);

  std::vector<workload::Worker> workers;
  for (size_t i = 0; i < run.all_threads(); ++i) workers.emplace_back(i);
  std::barrier all(static_cast<std::ptrdiff_t>(run.all_threads()) + 1);
  std::barrier working(static_cast<std::ptrdiff_t>(run.working) + 1);
  std::vector<std::thread> running;
  for (size_t i = 0; i < run.all_threads(); ++i) {
    running.emplace_back([&, i] {
      workload::settle(i);
      all.arrive_and_wait();  // all stacks exist
      all.arrive_and_wait();
      if (i < run.threads) use_once(workers[i], run.sizes, run.blocks);
      all.arrive_and_wait();  // everything is freed
      if (i >= run.threads) {
        replace_blocks(workers[i], i, run.operations);
        working.arrive_and_wait();
      }
      all.arrive_and_wait();  // measured
    });
  }
  all.arrive_and_wait();
  const struct memory_use before = own_memory();
  workload.begin(run.all_threads() + 1);
  all.arrive_and_wait();
  all.arrive_and_wait();
  if (run.working != 0) working.arrive_and_wait();
  workload.end();
  std::this_thread::sleep_for(std::chrono::milliseconds(run.sleep_ms));
  const struct memory_use after = own_memory();
  all.arrive_and_wait();
  for (std::thread& thread : running) thread.join();

  add_memory(workload, before, after, run.all_threads());
  for (const workload::Worker& worker : workers) workload.join(worker);
  return workload.report();
}
