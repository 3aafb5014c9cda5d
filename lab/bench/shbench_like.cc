// Small blocks with random lifetimes, most of them short: the pattern of parsers and compilers.
// Like MicroQuill's shbench in sizes (1 to 1000 bytes, skewed) and in freeing neither in order nor
// in reverse. A block that lives L steps is put L places ahead on a wheel and freed when its turn
// comes, or when a later block takes its place.
#include "bench.h"

int main(int argc, char** argv) {
  int threads = 2;
  size_t wheel = 8192, operations = 10'000'000, low = 1, high = 1000;
  bench::Bench bench("shbench_like", "small blocks with random lifetimes");
  bench.option("--threads", threads, "threads");
  bench.option("--wheel", wheel, "longest lifetime, in allocations");
  bench.option("--operations", operations, "allocations by one thread");
  bench.option("--low", low, "smallest size");
  bench.option("--high", high, "largest size");
  bench.parse(argc, argv);

  const bench::Sizes sizes(low, high), lifetimes(1, wheel - 1);
  std::vector<uint64_t> checksums(static_cast<size_t>(threads));
  const double seconds = bench::run_threads(threads, [&](int index) {
    bench::Random random(static_cast<uint64_t>(index) + 1);
    std::vector<char*> places(wheel);
    uint64_t checksum = 0;
    for (size_t step = 0; step < operations; ++step) {
      char*& due = places[step % wheel];
      if (due != nullptr) std::free(due);
      due = nullptr;
      const size_t size = sizes.pick(random);
      char*& place = places[(step + lifetimes.pick(random)) % wheel];
      if (place != nullptr) std::free(place);
      place = bench::take(size);
      checksum += size;
    }
    for (char* block : places) std::free(block);
    checksums[static_cast<size_t>(index)] = checksum;
  });
  uint64_t checksum = 0;
  for (const uint64_t part : checksums) checksum += part;
  return bench.report(seconds, operations * static_cast<size_t>(threads), checksum);
}
