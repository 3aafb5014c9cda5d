// Every thread only allocates its objects and frees them: the simplest test of whether threads
// disturb each other. The work grows with the number of threads.
// Source: Lever and Boreham, malloc() Performance in a Multithreaded Linux Environment, USENIX
// 2000.
// The defaults are those of [Boritz] (CSC469's version): 100,000 objects of 128 bytes, all held
// before the first is freed. Hoard's version frees each object at once: --held 1 --objects
// 10000000, sizes 8 and 512.
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, size = 128, objects = 100'000, held = 100'000, rounds = 1;
  workload::Workload workload("linux_scalability", "each thread allocates and frees OBJECTS");
  workload.count("--threads", threads, "threads");
  workload.count("--size", size, "bytes an object");
  workload.count("--objects", objects, "objects of each thread");
  workload.count("--held", held, "objects that a thread allocates before it frees them");
  workload.count("--rounds", rounds, 50, "how often all this is done");
  workload.parse(argc, argv);

  workload.run(threads, [&](workload::Worker& worker, size_t) {
    workload::Blocks blocks(std::min(held, objects));
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t done = 0; done < objects;) {
        const size_t now = std::min(blocks.size(), objects - done);
        for (size_t i = 0; i < now; ++i) blocks[i] = worker.allocate(size);
        for (size_t i = 0; i < now; ++i) worker.release(blocks[i]);
        done += now;
      }
    }
  });
  return workload.report();
}
