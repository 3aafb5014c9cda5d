// Thousands of short threads, a few at a time. Each allocates a little, frees what the thread
// before it left behind, and leaves some of its own: start and end of a thread's heap, and orphans.
#include "bench.h"

int main(int argc, char** argv) {
  int chains = 2;
  size_t threads = 10'000, blocks = 200, left = 20;
  bench::Bench bench("thread_churn", "short threads that leave some blocks to the next one");
  bench.option("--chains", chains, "threads at a time");
  bench.option("--threads", threads, "threads of all chains together");
  bench.option("--blocks", blocks, "blocks that a thread allocates");
  bench.option("--left", left, "of these, blocks that it leaves");
  bench.parse(argc, argv);

  const bench::Sizes sizes(16, 1024);
  const size_t each = threads / static_cast<size_t>(chains);
  std::vector<uint64_t> checksums(static_cast<size_t>(chains));
  const double seconds = bench::run_threads(chains, [&](int index) {
    bench::Random random(static_cast<uint64_t>(index) + 1);
    std::vector<char*> held(blocks), inherited(left);
    uint64_t checksum = 0;
    for (size_t thread = 0; thread < each; ++thread) {
      std::thread([&] {
        for (char*& block : held) {
          const size_t size = sizes.pick(random);
          block = bench::take(size);
          checksum += size;
        }
        for (char* block : inherited) std::free(block);
        for (size_t i = 0; i < left; ++i) inherited[i] = held[i];
        for (size_t i = left; i < blocks; ++i) std::free(held[i]);
      }).join();
    }
    for (char* block : inherited) std::free(block);
    checksums[static_cast<size_t>(index)] = checksum;
  });
  uint64_t checksum = 0;
  for (const uint64_t part : checksums) checksum += part;
  return bench.report(seconds, each * static_cast<size_t>(chains) * blocks, checksum);
}
