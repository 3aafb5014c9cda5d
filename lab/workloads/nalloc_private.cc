// Threads allocate into, write and free from private lists, first in, first out: perfectly
// parallel, and no block changes threads. The work is the same for every number of threads.
// Invariant: a list is a ring that holds at most kFullest blocks. Source: the first test of nalloc
// [Podolsky13]: 1e7 operations of all threads together, 16 lists a thread, sizes to 1024 bytes;
// whether it allocates depends on how full the list is (nalloc_levels.h).
#include "nalloc_levels.h"
#include "workload.h"

namespace {

struct Ring {
  workload::Block blocks[workload::kFullest];
  size_t first;
  size_t held;

  void push(const workload::Block& block) { blocks[(first + held++) % workload::kFullest] = block; }
  workload::Block pop() {
    const workload::Block block = blocks[first];
    first = (first + 1) % workload::kFullest;
    --held;
    return block;
  }
};

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, operations = 10'000'000, lists = 16, low = 1, high = 1024;
  workload::Workload workload("nalloc_private", "allocates and frees in private lists");
  workload.count("--threads", threads, "threads");
  workload.count("--operations", operations, "mallocs and frees of all threads together");
  workload.count("--lists", lists, "lists of a thread");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  std::vector<workload::Table<Ring>> pools;
  for (size_t i = 0; i < threads; ++i) pools.emplace_back(lists);
  workload.run(threads, [&](workload::Worker& worker, size_t id) {
    workload::Random random(id + 1);
    workload::Table<Ring>& pool = pools[id];
    for (size_t i = 0; i < operations / threads; ++i) {
      Ring& list = pool[random.below(lists)];
      if (workload::allocates_next(random, list.held, 1)) {
        list.push(worker.allocate(random.between(low, high)));
      } else {
        worker.release(list.pop());
      }
    }
    for (Ring& list : pool) {
      while (list.held != 0) worker.release(list.pop());
    }
  });
  return workload.report();
}
