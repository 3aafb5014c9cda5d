// Large blocks, allocated, written on every page and freed: images, matrices, network buffers.
// Shows what returning memory to the system and faulting it in again costs.
#include "bench.h"

int main(int argc, char** argv) {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr size_t kPage = 4096;
  size_t held = 8, operations = 1000, low = 1, high = 32;
  bench::Bench bench("large", "replaces large blocks, writing one byte of each of their pages");
  bench.option("--held", held, "live blocks");
  bench.option("--operations", operations, "replacements");
  bench.option("--low", low, "smallest size in MiB");
  bench.option("--high", high, "largest size in MiB");
  bench.parse(argc, argv);

  const bench::Sizes sizes(low * kMiB, high * kMiB);
  bench::Random random(1);
  std::vector<char*> blocks(held);
  uint64_t checksum = 0;
  const double start = bench::now();
  for (size_t i = 0; i < operations; ++i) {
    char*& block = blocks[random.below(held)];
    std::free(block);
    const size_t size = sizes.pick(random);
    block = bench::take(size);
    for (size_t at = 0; at < size; at += kPage) block[at] = static_cast<char>(at / kPage);
    checksum += size;
  }
  for (char* block : blocks) std::free(block);
  return bench.report(bench::now() - start, operations, checksum);
}
