// Active false sharing: each thread allocates an object, writes it many times and frees it. If the
// allocator serves two threads from one cache line, they contend for it.
// Source: Hoard's cache-thrash [Berger et al., ASPLOS 2000]; parameters of scalloc's scripts
// [Aigner15]: T 1000 8 1000000, the last value divided by T. [Boritz] uses 100000.
#include "false_sharing.h"
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, rounds = 1000, size = 8, writes = 1'000'000;
  workload::Workload workload("cache_thrash", "threads write their own small objects");
  workload.count("--threads", threads, "threads");
  workload.count("--rounds", rounds, "objects that each thread allocates");
  workload.count("--size", size, "bytes an object");
  workload.count("--writes", writes, 200'000,
                 "how often an object is written, divided by the threads");
  workload.parse(argc, argv);

  workload.run(threads, [&](workload::Worker& worker, size_t) {
    for (size_t round = 0; round < rounds; ++round) {
      const workload::Block object = worker.allocate(size);
      workload::write_many_times(object, writes / threads);
      worker.release(object);
    }
  });
  return workload.report();
}
