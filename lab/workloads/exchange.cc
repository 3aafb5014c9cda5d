// Threads free each other's blocks: the share of such frees, the batch, the sizes, the number of
// threads and the pattern are options.
//
//   tables    Each thread replaces blocks in a table; after a round the tables change hands. A
//             round replaces each block 1 / --share times, so --share of the frees are foreign.
//   pools     Each thread puts new batches into places of a pool, and frees the batches from there.
//             --share of the batches go to a pool of all threads, others to a pool of the thread.
//   pipeline  Of two threads the first allocates; the second frees --share of the blocks.
//   owner     A single thread allocates for all others.
// A thread frees or hands on --batch blocks, then allocates as many.
// Invariant: a block is in a single place, or a single thread holds the block. Our own.
// docs/decisions/0027-foreign-frees.md
#include <algorithm>
#include <deque>
#include <numeric>

#include "sweep_channel.h"
#include "workload.h"

namespace {

using workload::Blocks, workload::Random, workload::Worker;

struct Options {
  std::string pattern = "tables";
  size_t threads = 2, blocks = 20'000, batch = 1, operations = 10'000'000, low = 16, high = 512;
  double share = 1;

  size_t of_each(size_t threads_at_work) const { return operations / threads_at_work; }
};

void parse(workload::Workload& workload, Options& to, int argc, char** argv) {
  workload.choice("--pattern", to.pattern, {"tables", "pools", "pipeline", "owner"},
                  "how blocks come to the thread that frees them");
  workload.count("--threads", to.threads, "threads");
  workload.option("--share", to.share, "share of the frees with another thread's block");
  workload.count("--batch", to.batch, "blocks freed, or handed on, at a time");
  workload.count("--blocks", to.blocks, "places of a table, or of a thread's part of the pool");
  workload.count("--operations", to.operations, 2'000'000, "blocks that all threads allocate");
  workload.sizes(to.low, to.high);
  workload.parse(argc, argv);
  workload.require(to.share >= 0.001 && to.share <= 1, "--share is not between 0.001 and 1");
  workload.require(to.batch <= to.blocks, "--batch is above --blocks");
  const bool gives = to.pattern == "pipeline" || to.pattern == "owner";
  workload.require(!gives || to.threads > 1, "this pattern needs --threads of at least 2");
  workload.require(to.pattern != "pipeline" || to.threads % 2 == 0, "--threads is odd");
}

// All places in turn; neighbours are far apart.
class Walk {
 public:
  explicit Walk(size_t places) : places_(places), stride_(places * 5 / 8 + 1) {
    while (std::gcd(stride_, places) != 1) ++stride_;
  }
  size_t next() { return at_ = (at_ + stride_) % places_; }

 private:
  size_t places_, stride_, at_ = 0;
};

void release_all(Worker& worker, Blocks& blocks) {
  for (const workload::Block& block : blocks) worker.release(block);
  blocks.clear();
}

void fill(Worker& worker, Blocks& blocks, size_t count, const workload::Sizes& sizes,
          Random& random) {
  for (size_t i = 0; i < count; ++i) blocks.push_back(worker.allocate(sizes.pick(random)));
}

void run_tables(workload::Workload& workload, const Options& options) {
  const workload::Sizes sizes(options.low, options.high);
  const auto of_round = static_cast<size_t>(static_cast<double>(options.blocks) / options.share);
  const size_t turns = (of_round + options.batch - 1) / options.batch;
  const size_t of_thread = options.of_each(options.threads);
  const size_t rounds = (of_thread + turns * options.batch - 1) / (turns * options.batch);
  workload::Table<Blocks> tables(options.threads);
  workload::Meeting all(options.threads);

  const auto prepare = [&](Worker& worker, size_t index) {
    Random random(index + 1);
    tables[index].reserve(options.blocks);
    fill(worker, tables[index], options.blocks, sizes, random);
    worker.forget();
    return index;
  };
  workload.run_prepared(options.threads, prepare, [&](Worker& worker, size_t index) {
    Random random(options.threads + index + 1);
    for (size_t round = 1; round <= rounds; ++round) {
      all.arrive_and_wait([] {});
      Blocks& table = tables[(index + round) % options.threads];
      Walk freed(options.blocks), filled(options.blocks);
      for (size_t turn = 0; turn < turns; ++turn) {
        for (size_t i = 0; i < options.batch; ++i) worker.release(table[freed.next()]);
        for (size_t i = 0; i < options.batch; ++i)
          table[filled.next()] = worker.allocate(sizes.pick(random));
      }
    }
  });
  Worker closing(options.threads);
  for (Blocks& table : tables) release_all(closing, table);
  closing.forget();
  workload.join(closing);
}

// Places for batches. Invariant: a batch is in a single place, or a single thread holds the batch.
class Pool {
 public:
  Pool(size_t places, size_t batch) : batches_(places), places_(places) {
    for (size_t i = 0; i < places; ++i) {
      batches_[i].reserve(batch);
      places_[i].store(&batches_[i], std::memory_order_relaxed);  // relaxed: threads start later
    }
  }
  // Puts a batch into a random place, and returns the batch from there.
  Blocks* exchange(Blocks* batch, Random& random) {
    std::atomic<Blocks*>& place = places_[random.below(places_.size())];
    return place.exchange(batch, std::memory_order_acq_rel);  // pairs: exchange
  }
  Blocks& batch(size_t number) { return batches_[number]; }
  size_t size() const { return places_.size(); }

 private:
  workload::Table<Blocks> batches_;
  workload::Table<std::atomic<Blocks*>> places_;
};

void run_pools(workload::Workload& workload, const Options& options) {
  const workload::Sizes sizes(options.low, options.high);
  const size_t places = std::max<size_t>(1, options.blocks / options.batch);
  const size_t turns = options.of_each(options.threads) / options.batch;
  Pool shared(places * options.threads, options.batch);
  std::deque<Pool, workload::Mapped<Pool>> own;
  workload::Table<Blocks> first(options.threads);
  for (size_t i = 0; i < options.threads; ++i) own.emplace_back(places, options.batch);

  workload.run(options.threads, [&](Worker& worker, size_t index) {
    Random random(index + 1);
    first[index].reserve(options.batch);
    Blocks* batch = &first[index];
    for (size_t turn = 0; turn < turns; ++turn) {
      release_all(worker, *batch);
      fill(worker, *batch, options.batch, sizes, random);
      constexpr size_t kParts = 1 << 20;
      const bool shares = random.below(kParts) < static_cast<size_t>(options.share * kParts);
      batch = (shares ? shared : own[index]).exchange(batch, random);
    }
  });
  Worker closing(options.threads);
  for (Blocks& batch : first) release_all(closing, batch);
  for (size_t i = 0; i < shared.size(); ++i) release_all(closing, shared.batch(i));
  for (Pool& pool : own) {
    for (size_t i = 0; i < pool.size(); ++i) release_all(closing, pool.batch(i));
  }
  workload.join(closing);
}

// Threads that give. Each giver has `takers` threads, and hands batches to these in turn.
void run_givers(workload::Workload& workload, const Options& options, size_t takers) {
  const workload::Sizes sizes(options.low, options.high);
  const size_t givers = options.threads / (1 + takers);
  const size_t turns = options.of_each(givers) / options.batch;
  std::deque<workload::Channel, workload::Mapped<workload::Channel>> channels;
  for (size_t i = 0; i < givers * takers; ++i) channels.emplace_back(options.batch);

  workload.run(givers * (1 + takers), [&](Worker& worker, size_t index) {
    if (index >= givers) {
      workload::Channel& channel = channels[index - givers];
      for (bool over = false; !over;) {
        over = channel.is_over(1);
        const size_t freed =
            channel.drain([&](const workload::Block& block) { worker.release(block); });
        if (freed == 0) std::this_thread::yield();
      }
      return;
    }
    Random random(index + 1);
    Blocks batch, kept;
    batch.reserve(options.batch);
    kept.reserve(options.batch);
    const double share = options.share * static_cast<double>(options.batch);  // of a batch
    for (size_t turn = 0; turn < turns; ++turn) {
      const size_t before = static_cast<size_t>(share * static_cast<double>(turn));
      const size_t given = static_cast<size_t>(share * static_cast<double>(turn + 1)) - before;
      workload::Channel& channel = channels[index * takers + turn % takers];
      fill(worker, batch, options.batch, sizes, random);
      for (size_t i = 0; i < options.batch; ++i) {
        if (i >= given) {
          kept.push_back(batch[i]);
          continue;
        }
        while (!channel.push(batch[i])) std::this_thread::yield();
      }
      batch.clear();
      release_all(worker, kept);
    }
    for (size_t i = 0; i < takers; ++i) channels[index * takers + i].finish();
  });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  workload::Workload workload("exchange", "threads free each other's blocks");
  parse(workload, options, argc, argv);
  if (options.pattern == "tables") {
    run_tables(workload, options);
  } else if (options.pattern == "pools") {
    run_pools(workload, options);
  } else {
    run_givers(workload, options, options.pattern == "owner" ? options.threads - 1 : 1);
  }
  return workload.report();
}
