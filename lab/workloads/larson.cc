// A server: every thread replaces random blocks of its set, then hands the set over to a new thread
// and ends, as a request handler does. Threads free blocks that they did not allocate.
// Source: Larson and Krishnan, Memory Allocation for Long-Running Server Applications, ISMM 1998;
// parameters of [Aigner15 §7.3], `10 7 8 1000 10000 1 T`: a thread replaces 10,000 blocks for each
// of its 1,000, all of 7 bytes (the range excludes its end). The original counts operations in ten
// seconds; here about as many operations are fixed and the time is measured. As in the original,
// the main thread allocates the first sets. With `--sets threads` the first thread of each chain
// allocates its own set before the region, so a thread gets memory of another node only from the
// allocator.
#include <pthread.h>

#include <latch>

#include "workload.h"

namespace {

struct Server {
  workload::Sizes sizes;
  size_t operations;
  std::latch ready;  // the first threads have allocated their sets
  std::latch begun;  // the measured region has begun
  std::latch finished;
};

struct Chain {
  Server* server;
  size_t index;
  workload::Worker worker;
  workload::Random random;
  workload::Blocks blocks;
  size_t generations;  // threads that are still to run
  bool has_set = false;
};

void allocate_set(Chain& chain) {
  for (workload::Block& block : chain.blocks) {
    block = chain.worker.allocate(chain.server->sizes.pick(chain.random));
  }
  chain.has_set = true;
}

// Uses pthread_create: the state of a std::thread would be a block that the ending thread made.
void start_thread(Chain& chain);

// One thread of a chain. At its end it starts the next one, or reports the end of the chain.
void* serve(void* argument) {
  Chain& chain = *static_cast<Chain*>(argument);
  workload::settle(chain.index);
  Server& server = *chain.server;
  if (!chain.has_set) {
    allocate_set(chain);
    server.ready.count_down();
    server.begun.wait();
  }
  for (size_t i = 0; i < server.operations; ++i) {
    workload::replace_one(chain.worker, chain.blocks, server.sizes, chain.random);
  }
  if (--chain.generations == 0) {
    server.finished.count_down();
  } else {
    start_thread(chain);
  }
  return nullptr;
}

void start_thread(Chain& chain) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, serve, &chain) != 0) {
    std::fprintf(stderr, "larson: no more threads\n");
    std::exit(1);
  }
  pthread_detach(thread);
}

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, blocks = 1000, operations = 10'000'000, generations = 64, low = 7, high = 7;
  std::string sets = "main";
  workload::Workload workload("larson",
                              "threads replace blocks and hand their set to a new thread");
  workload.count("--threads", threads, "threads at a time");
  workload.count("--blocks", blocks, "blocks in a thread's set");
  workload.count("--operations", operations, 1'000'000, "replacements by one thread");
  workload.count("--generations", generations,
                 "threads that follow each other, of all chains together");
  workload.choice("--sets", sets, {"main", "threads"}, "which threads allocate the first sets");
  workload.sizes(low, high);
  workload.parse(argc, argv);
  workload.require(generations >= threads, "--generations is below --threads");

  const auto chain_count = static_cast<std::ptrdiff_t>(threads);
  const bool by_threads = sets == "threads";
  Server server{workload::Sizes(low, high), operations, std::latch(chain_count), std::latch(1),
                std::latch(chain_count)};
  workload::Table<Chain> chains;
  chains.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    chains.push_back({&server, i, workload::Worker(i), workload::Random(i + 1),
                      workload::Blocks(blocks), generations / threads, false});
  }
  for (Chain& chain : chains) by_threads ? start_thread(chain) : allocate_set(chain);
  if (by_threads) server.ready.wait();
  workload.begin(2 * threads + 1);  // a thread may overlap with the one that it starts
  if (by_threads) {
    server.begun.count_down();
  } else {
    for (Chain& chain : chains) start_thread(chain);
  }
  server.finished.wait();
  workload.end();

  for (Chain& chain : chains) {
    for (const workload::Block& block : chain.blocks) chain.worker.release(block);
    workload.join(chain.worker);
  }
  return workload.report();
}
