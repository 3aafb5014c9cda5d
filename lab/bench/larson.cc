// A server: every thread replaces random blocks of its working set, then hands the set over to a
// new thread and ends, as a request handler does. Blocks are freed by threads that did not allocate
// them. The original counts throughput in fixed time; here the work is fixed and the time measured.
// Source: Larson and Krishnan, Memory Allocation for Long-Running Server Applications, ISMM 1998.
#include <atomic>
#include <latch>

#include "bench.h"

namespace {

struct Chain {
  std::vector<char*> blocks;
  bench::Random random;
  size_t generations;  // threads still to come
  uint64_t checksum = 0;
};

struct Server {
  bench::Sizes sizes;
  size_t operations;
  std::latch finished;
};

// One thread of a chain. The last thing it does is to start the next one, or to report the end.
void serve(Server& server, Chain& chain) {
  for (size_t i = 0; i < server.operations; ++i) {
    char*& block = chain.blocks[chain.random.below(chain.blocks.size())];
    std::free(block);
    const size_t size = server.sizes.pick(chain.random);
    block = bench::take(size);
    chain.checksum += size;
  }
  if (--chain.generations == 0) {
    server.finished.count_down();
  } else {
    std::thread([&server, &chain] { serve(server, chain); }).detach();
  }
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2;
  size_t blocks = 1000, operations = 10'000, generations = 2400, low = 8, high = 1000;
  bench::Bench bench("larson", "threads replace random blocks and hand their set to a new thread");
  bench.option("--threads", threads, "threads at a time");
  bench.option("--blocks", blocks, "blocks in a thread's set");
  bench.option("--operations", operations, "replacements by one thread");
  bench.option("--generations", generations,
               "threads that follow each other, of all chains together");
  bench.option("--low", low, "smallest size");
  bench.option("--high", high, "largest size");
  bench.parse(argc, argv);

  Server server{bench::Sizes(low, high), operations, std::latch(threads)};
  std::vector<Chain> chains;
  const size_t each = generations / static_cast<size_t>(threads);
  for (int i = 0; i < threads; ++i) {
    chains.push_back({{}, bench::Random(static_cast<uint64_t>(i) + 1), each});
  }
  const double start = bench::now();
  for (Chain& chain : chains) {  // the first set comes from the main thread, as in the original
    for (size_t i = 0; i < blocks; ++i) {
      chain.blocks.push_back(bench::take(server.sizes.pick(chain.random)));
    }
  }
  for (Chain& chain : chains) std::thread([&server, &chain] { serve(server, chain); }).detach();
  server.finished.wait();
  const double seconds = bench::now() - start;

  uint64_t checksum = 0;
  for (Chain& chain : chains) {
    checksum += chain.checksum;
    for (char* block : chain.blocks) std::free(block);
  }
  return bench.report(seconds, each * static_cast<size_t>(threads) * operations, checksum);
}
