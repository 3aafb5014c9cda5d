// Threads that each allocate many small objects of one size and free them all, again and again.
// Models batch work on private objects; scales perfectly unless the allocator shares something.
// Source: Hoard's threadtest [Berger et al., ASPLOS 2000].
#include "bench.h"

int main(int argc, char** argv) {
  int threads = 2;
  size_t size = 64, objects = 50'000, rounds = 1500;
  bench::Bench bench("threadtest",
                     "allocates OBJECTS of SIZE in each thread, frees all, ROUNDS times");
  bench.option("--threads", threads, "threads");
  bench.option("--size", size, "bytes an object");
  bench.option("--objects", objects, "objects of all threads together");
  bench.option("--rounds", rounds, "rounds");
  bench.parse(argc, argv);

  const size_t mine = objects / static_cast<size_t>(threads);
  const double seconds = bench::run_threads(threads, [&](int) {
    std::vector<char*> held(mine);
    for (size_t round = 0; round < rounds; ++round) {
      for (char*& object : held) object = bench::take(size);
      for (char* object : held) std::free(object);
    }
  });
  const uint64_t operations = mine * rounds * static_cast<size_t>(threads);
  return bench.report(seconds, operations, operations * size);
}
