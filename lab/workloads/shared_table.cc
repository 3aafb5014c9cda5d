// Threads exchange nodes in one table: each allocates a node, puts it into a random slot, and frees
// the node that it takes out, which any thread may have allocated. With `--batch N` a thread keeps
// what it takes out and frees N nodes at a time. It is what a concurrent structure does to its
// nodes under memory reclamation [Kim23 §3], without the structure. Our own.
#include <atomic>

#include "workload.h"

namespace {

// The nodes that all threads share. Invariant: a node is in one slot, or one thread holds it.
class Nodes {
 public:
  explicit Nodes(size_t slots) : slots_(slots) {}

  // Returns the node that was in a random slot, or nullptr.
  char* exchange(char* node, workload::Random& random) {
    std::atomic<char*>& slot = slots_[random.below(slots_.size())];
    return slot.exchange(node, std::memory_order_acq_rel);  // pairs: exchange, what the node holds
  }
  // Before threads start and after they end.
  void put(size_t slot, char* node) {
    slots_[slot].store(node, std::memory_order_release);  // pairs: exchange
  }
  char* take(size_t slot) {
    return slots_[slot].exchange(nullptr, std::memory_order_acquire);  // pairs: exchange
  }

 private:
  workload::Table<std::atomic<char*>> slots_;
};

// What a thread took out and did not free yet.
struct Taken {
  workload::Random random;
  workload::Blocks blocks;
};

void release_all(workload::Worker& worker, workload::Blocks& blocks) {
  for (const workload::Block& block : blocks) worker.release(block);
  blocks.clear();
}

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, slots = 16'384, size = 64, operations = 20'000'000, batch = 1;
  workload::Workload workload("shared_table", "threads exchange nodes in a table and free them");
  workload.count("--threads", threads, "threads");
  workload.count("--slots", slots, "of the table");
  workload.count("--size", size, "of a node");
  workload.count("--operations", operations, 2'000'000, "exchanges by one thread");
  workload.count("--batch", batch, "nodes that a thread takes out before it frees them");
  workload.parse(argc, argv);

  Nodes nodes(slots);
  // Each thread fills a part of the table, so that nodes of all threads are in it.
  const auto prepare = [&](workload::Worker& worker, size_t index) {
    for (size_t i = index; i < slots; i += threads) nodes.put(i, worker.allocate(size).address);
    Taken taken{workload::Random(index + 1), {}};
    taken.blocks.reserve(batch);
    return taken;
  };
  workload.run_prepared(threads, prepare, [&](workload::Worker& worker, Taken& taken) {
    for (size_t i = 0; i < operations; ++i) {
      char* const node = nodes.exchange(worker.allocate(size).address, taken.random);
      taken.blocks.push_back({node, size});
      if (taken.blocks.size() == batch) release_all(worker, taken.blocks);
    }
    release_all(worker, taken.blocks);
  });

  workload::Worker last(threads);
  for (size_t i = 0; i < slots; ++i) last.release({nodes.take(i), size});
  last.forget();  // the region ended before
  workload.join(last);
  return workload.report();
}
