// Each thread holds a set of blocks of very different sizes and keeps replacing random ones: the
// steady state of a program with caches. Tests reuse inside partly filled spans.
#include "bench.h"

int main(int argc, char** argv) {
  int threads = 2;
  size_t blocks = 20'000, operations = 5'000'000, low = 16, high = 4096;
  bench::Bench bench("churn", "replaces random blocks of a live set, sizes skewed to the small");
  bench.option("--threads", threads, "threads");
  bench.option("--blocks", blocks, "live blocks of one thread");
  bench.option("--operations", operations, "replacements by one thread");
  bench.option("--low", low, "smallest size");
  bench.option("--high", high, "largest size");
  bench.parse(argc, argv);

  const bench::Sizes sizes(low, high);
  std::vector<uint64_t> checksums(static_cast<size_t>(threads));
  const double seconds = bench::run_threads(threads, [&](int index) {
    bench::Random random(static_cast<uint64_t>(index) + 1);
    std::vector<char*> held(blocks);
    for (char*& block : held) block = bench::take(sizes.pick(random));
    uint64_t checksum = 0;
    for (size_t i = 0; i < operations; ++i) {
      char*& block = held[random.below(blocks)];
      checksum += static_cast<unsigned char>(block[0]);
      std::free(block);
      block = bench::take(sizes.pick(random));
    }
    for (char* block : held) std::free(block);
    checksums[static_cast<size_t>(index)] = checksum;
  });
  uint64_t checksum = 0;
  for (const uint64_t part : checksums) checksum += part;
  return bench.report(seconds, operations * static_cast<size_t>(threads), checksum);
}
