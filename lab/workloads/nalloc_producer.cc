// One thread allocates, all others free: every free is remote.
//
// In nalloc's own third test the pool between them took most of the time: one contended exchange a
// block. Here the producer fills a batch and hands it over whole, by one store, to the queue of one
// consumer, which no other thread reads; it serves the consumers in turn. A hand-over costs two
// cache misses for BATCH blocks, so the remaining time is the allocator's. The producer waits when
// a queue is full (`producer_waits` counts that), and a consumer waits when its queue is empty, so
// live blocks are bounded. Invariant: a slot belongs to the consumer while `full`, else to the
// producer.
// Source: the third test of nalloc [Podolsky13] and its author's remark that it was flawed.
#include <atomic>

#include "workload.h"

namespace {

struct alignas(128) Slot {
  std::atomic<bool> full;
  size_t held;
};

// A ring of batches for one consumer.
class Queue {
 public:
  Queue(size_t slots, size_t batch) : slots_(slots), blocks_(slots * batch), batch_(batch) {}

  // Waits until the slot of `turn` is full (or empty, as `full` says); returns whether it waited.
  bool wait(size_t turn, bool full) {
    const std::atomic<bool>& state = slots_[turn % slots_.size()].full;
    if (state.load(std::memory_order_acquire) == full) return false;
    while (state.load(std::memory_order_acquire) != full) std::this_thread::yield();
    return true;
  }
  workload::Block* blocks(size_t turn) { return &blocks_[turn % slots_.size() * batch_]; }
  size_t held(size_t turn) { return slots_[turn % slots_.size()].held; }
  void hand_over(size_t turn, size_t held) {
    Slot& slot = slots_[turn % slots_.size()];
    slot.held = held;
    slot.full.store(true, std::memory_order_release);
  }
  void give_back(size_t turn) {
    slots_[turn % slots_.size()].full.store(false, std::memory_order_release);
  }

 private:
  workload::Table<Slot> slots_;
  workload::Table<workload::Block> blocks_;
  size_t batch_;
};

struct Options {
  size_t threads = 2, operations = 10'000'000, batch = 1000, slots = 4, low = 1, high = 1024;
};

size_t produce(workload::Worker& worker, std::vector<Queue>& queues, size_t turns,
               const Options& options) {
  workload::Random random(1);
  size_t waits = 0, left = options.operations / 2;
  for (size_t turn = 0; turn < turns; ++turn) {
    for (Queue& queue : queues) {
      const size_t held = std::min(options.batch, left);
      left -= held;
      waits += queue.wait(turn, false);
      workload::Block* const blocks = queue.blocks(turn);
      for (size_t i = 0; i < held; ++i)
        blocks[i] = worker.allocate(random.between(options.low, options.high));
      queue.hand_over(turn, held);
    }
  }
  return waits;
}

void consume(workload::Worker& worker, Queue& queue, size_t turns) {
  for (size_t turn = 0; turn < turns; ++turn) {
    queue.wait(turn, true);
    const workload::Block* const blocks = queue.blocks(turn);
    for (size_t i = 0; i < queue.held(turn); ++i) worker.release(blocks[i]);
    queue.give_back(turn);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  workload::Workload workload("nalloc_producer", "one thread allocates, the others free");
  workload.count("--threads", options.threads, "threads that free, beside the one that allocates");
  workload.count("--operations", options.operations, 5'000'000, "mallocs and frees together");
  workload.count("--batch", options.batch, "blocks handed over at once");
  workload.count("--slots", options.slots, "batches a queue holds");
  workload.sizes(options.low, options.high);
  workload.parse(argc, argv);

  // Every consumer gets `turns` batches; its last one may be empty.
  const size_t per_turn = options.batch * options.threads;
  const size_t turns = (options.operations / 2 + per_turn - 1) / per_turn;
  std::vector<Queue> queues;
  for (size_t i = 0; i < options.threads; ++i) queues.emplace_back(options.slots, options.batch);
  size_t waits = 0;
  workload.run(options.threads + 1, [&](workload::Worker& worker, size_t id) {
    if (id == 0) {
      waits = produce(worker, queues, turns, options);
    } else {
      consume(worker, queues[id - 1], turns);
    }
  });
  workload.add("batches", turns * options.threads);
  workload.add("producer_waits", waits);
  return workload.report();
}
