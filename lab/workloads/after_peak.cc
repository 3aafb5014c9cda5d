// A peak of load and its end: threads fill the heap with mixed blocks; each of them then frees most
// of another thread's blocks in random order, and continues at low load. The result has the
// resident memory at the peak and at two times after it, and the bytes of the blocks that are left.
// Invariant: the low load is a number of replacements, not a time: equal options give equal work.
// Our own.
#include <barrier>

#include "own_memory.h"
#include "workload.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLeastAverage = 512;  // bytes: a table with room for so many blocks never grows
constexpr size_t kStepMs = 20, kReplacedInStep = 200;  // the low load of a thread

struct Run {
  size_t threads = 8, megabytes = 40, freed = 95, rest_ms = 6000, more_ms = 14'000;
};

// Equal numbers of blocks of nine powers of two, less up to a third: 11 bytes to 4 KiB.
size_t mixed_size(workload::Random& random) {
  const size_t size = size_t{16} << random.below(9);
  return size - random.below(size / 3 + 1);
}

workload::Blocks empty_table(const Run& run) {
  workload::Blocks table;
  table.reserve(run.megabytes * kMiB / kLeastAverage);
  return table;
}

void fill(workload::Worker& worker, workload::Blocks& table, size_t bytes, size_t seed) {
  workload::Random random(seed);
  for (size_t sum = 0; sum < bytes; sum += table.back().size) {
    table.push_back(worker.allocate(mixed_size(random)));
  }
}

void free_at_random(workload::Worker& worker, workload::Blocks& table, size_t percent,
                    workload::Random& random) {
  for (size_t left = table.size(); left > 1; --left) {
    std::swap(table[left - 1], table[random.below(left)]);
  }
  const size_t kept = std::max<size_t>(1, table.size() * (100 - percent) / 100);
  for (; table.size() > kept; table.pop_back()) worker.release(table.back());
}

void work_at_low_load(workload::Worker& worker, workload::Blocks& table, size_t duration_ms,
                      workload::Random& random) {
  const workload::Sizes sizes(16, 1015);
  for (size_t ms = 0; ms < duration_ms; ms += kStepMs) {
    for (size_t i = 0; i < kReplacedInStep; ++i) replace_one(worker, table, sizes, random);
    std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
  }
}

size_t bytes_of(const std::vector<workload::Blocks>& tables) {
  size_t sum = 0;
  for (const workload::Blocks& table : tables) {
    for (const workload::Block& block : table) sum += block.size;
  }
  return sum;
}

void parse(workload::Workload& workload, Run& run, int argc, char** argv) {
  workload.count("--threads", run.threads, "threads");
  workload.count("--megabytes", run.megabytes, "each thread's blocks at the peak, MiB");
  workload.option("--freed", run.freed, "how many percent of the blocks are freed");
  workload.option("--rest", run.rest_ms, "ms of low load before the first measurement");
  workload.option("--more", run.more_ms, "ms of low load between the first and the second");
  workload.parse(argc, argv);
  workload.require(run.freed <= 100, "--freed is above 100");
}

}  // namespace

int main(int argc, char** argv) {
  Run run;
  workload::Workload workload("after_peak", "fills a heap, frees most of it at random, and rests");
  parse(workload, run, argc, argv);

  std::vector<workload::Worker> workers;
  std::vector<workload::Blocks> tables;
  for (size_t i = 0; i < run.threads; ++i) {
    workers.emplace_back(i);
    tables.push_back(empty_table(run));
  }
  std::barrier all(static_cast<std::ptrdiff_t>(run.threads) + 1);
  workload.begin(run.threads + 1);
  std::vector<std::thread> running;
  for (size_t i = 0; i < run.threads; ++i) {
    running.emplace_back([&, i] {
      workload::settle(i);
      fill(workers[i], tables[i], run.megabytes * kMiB, i + 1);
      all.arrive_and_wait();  // the peak
      all.arrive_and_wait();  // measured
      workload::Blocks& others = tables[(i + 1) % run.threads];
      workload::Random random(run.threads + i + 1);
      free_at_random(workers[i], others, run.freed, random);
      for (const size_t duration_ms : {run.rest_ms, run.more_ms}) {
        work_at_low_load(workers[i], others, duration_ms, random);
        all.arrive_and_wait();  // the low load is over
        all.arrive_and_wait();  // measured
      }
      for (const workload::Block& block : others) workers[i].release(block);
    });
  }
  const auto measured = [&all] {
    all.arrive_and_wait();
    const struct memory_use memory = own_memory();
    all.arrive_and_wait();
    return memory.rss_kib;
  };
  const long at_peak = measured();
  const long after_peak = measured();
  const long long_after_peak = measured();
  for (std::thread& thread : running) thread.join();
  workload.end();

  workload.add("at_peak_kib", at_peak);
  workload.add("after_peak_kib", after_peak);
  workload.add("long_after_peak_kib", long_after_peak);
  workload.add("live_kib", static_cast<double>(bytes_of(tables)) / 1024);
  for (const workload::Worker& worker : workers) workload.join(worker);
  return workload.report();
}
