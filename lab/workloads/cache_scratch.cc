// Passive false sharing: one thread allocates neighbouring objects and hands one to each worker.
// A worker frees its object and continues as in cache_thrash. If the allocator gives it the same
// place again, the workers write to one cache line for the whole run.
// Source: Hoard's cache-scratch [Berger et al., ASPLOS 2000]; parameters of scalloc's scripts
// [Aigner15]: T 1000 8 1000000, the last value divided by T. [Boritz] uses 100000.
#include "false_sharing.h"
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, rounds = 1000, size = 8, writes = 1'000'000;
  workload::Workload workload("cache_scratch", "workers free an object of the main thread's first");
  workload.count("--threads", threads, "threads");
  workload.count("--rounds", rounds, "objects that each thread allocates");
  workload.count("--size", size, "bytes an object");
  workload.count("--writes", writes, 200'000,
                 "how often an object is written, divided by the threads");
  workload.parse(argc, argv);

  workload::Worker main_worker(threads);
  workload::Blocks first(threads);
  for (workload::Block& object : first) object = main_worker.allocate(size);
  workload.run(threads, [&](workload::Worker& worker, size_t index) {
    worker.release(first[index]);
    for (size_t round = 0; round < rounds; ++round) {
      const workload::Block object = worker.allocate(size);
      workload::write_many_times(object, writes / threads);
      worker.release(object);
    }
  });
  workload.join(main_worker);
  return workload.report();
}
