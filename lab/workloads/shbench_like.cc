// Most of its small blocks live briefly and some live long, as in parsers and compilers. There are
// three kinds. `six`: in each round a thread allocates a batch and then frees it, alternately in
// order and in reverse, except every fourth block, which lives for many rounds. `eight`: as `six`,
// but another thread frees these survivors. `lifetimes`: a block that lives L steps is put L places
// ahead on a wheel; it is freed when its turn comes or a later block takes its place.
// Source: modelled on MicroQuill's sh6bench and sh8bench (SmartHeap), whose text may not be
// redistributed; design and code are our own. Parameters of [Aigner15 §7.2]: 10^6 rounds (here:
// allocations) per thread, 1 to 8 bytes.
#include <mutex>

#include "workload.h"

namespace {

struct Parameters {
  size_t threads = 2, operations = 1'000'000, batch = 256, wheel = 8192, low = 1, high = 8;
  std::string kind = "six";
};

using workload::Blocks;

// Threads leave blocks for each other here. Invariant: no thread holds a block that is here.
class Exchange {
 public:
  // Leaves `blocks` and takes the blocks that were there, by a swap of the two tables.
  void swap(Blocks& blocks) {
    const std::lock_guard lock(mutex_);
    blocks_.swap(blocks);
  }

 private:
  std::mutex mutex_;
  Blocks blocks_;
};

void release_all(workload::Worker& worker, Blocks& blocks) {
  for (const workload::Block& block : blocks) {
    if (block.address != nullptr) worker.release(block);
  }
  blocks.clear();
}

// Frees a batch, in order or in reverse, except every fourth block: it replaces the oldest
// survivor, which goes to `departing`.
void retire(workload::Worker& worker, Blocks& batch, bool reverse, Blocks& survivors,
            size_t& oldest, Blocks& departing) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const workload::Block& block = reverse ? batch[batch.size() - 1 - i] : batch[i];
    if (i % 4 != 3) {
      worker.release(block);
      continue;
    }
    workload::Block& place = survivors[oldest++ % survivors.size()];
    if (place.address != nullptr) departing.push_back(place);
    place = block;
  }
}

void run_rounds(workload::Worker& worker, size_t index, const Parameters& options,
                const workload::Sizes& sizes, Exchange* exchange) {
  workload::Random random(index + 1);
  Blocks batch, survivors(options.wheel), departing;
  batch.reserve(options.batch);
  departing.reserve(options.batch);
  size_t oldest = 0;
  bool reverse = false;
  for (size_t left = options.operations; left > 0; reverse = !reverse) {
    const size_t now = std::min(left, options.batch);
    for (size_t i = 0; i < now; ++i) batch.push_back(worker.allocate(sizes.pick(random)));
    left -= now;
    retire(worker, batch, reverse, survivors, oldest, departing);
    batch.clear();
    if (exchange != nullptr) exchange->swap(departing);
    release_all(worker, departing);
  }
  release_all(worker, survivors);
}

void run_wheel(workload::Worker& worker, size_t index, const Parameters& options,
               const workload::Sizes& sizes) {
  const workload::Sizes lifetimes(1, options.wheel - 1);
  workload::Random random(index + 1);
  Blocks places(options.wheel);
  for (size_t step = 0; step < options.operations; ++step) {
    workload::Block& due = places[step % options.wheel];
    if (due.address != nullptr) worker.release(due);
    due = {};
    const size_t size = sizes.pick(random);
    workload::Block& place = places[(step + lifetimes.pick(random)) % options.wheel];
    if (place.address != nullptr) worker.release(place);
    place = worker.allocate(size);
  }
  release_all(worker, places);
}

}  // namespace

int main(int argc, char** argv) {
  Parameters options;
  workload::Workload workload("shbench_like", "small blocks, most of them with a short life");
  workload.choice("--kind", options.kind, {"six", "eight", "lifetimes"},
                  "six: all private; eight: survivors are freed by others; lifetimes: random ones");
  workload.count("--threads", options.threads, "threads");
  workload.count("--operations", options.operations, 10'000'000, "allocations by one thread");
  workload.count("--batch", options.batch, "allocations in a round of six and eight");
  workload.count("--wheel", options.wheel, "places of survivors; longest of the lifetimes");
  workload.sizes(options.low, options.high);
  workload.parse(argc, argv);
  workload.require(options.wheel > 1, "--wheel must be at least 2");

  const workload::Sizes sizes(options.low, options.high);
  Exchange exchange;
  workload.run(options.threads, [&](workload::Worker& worker, size_t index) {
    if (options.kind == "lifetimes") {
      run_wheel(worker, index, options, sizes);
    } else {
      run_rounds(worker, index, options, sizes, options.kind == "eight" ? &exchange : nullptr);
    }
  });
  workload::Worker rest(options.threads);
  Blocks left;
  exchange.swap(left);
  release_all(rest, left);
  workload.join(rest);
  return workload.report();
}
