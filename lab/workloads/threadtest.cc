// Each thread repeatedly allocates many small objects of one size and frees them all. It models
// batch work on private objects, and scales perfectly unless the allocator shares something.
// Source: Hoard's threadtest [Berger et al., ASPLOS 2000]; parameters of [Aigner15 §7.1]:
// T 10000 100000 0 8, the last value in units of 8 bytes.
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, size = 64, objects = 100'000, rounds = 10'000, work = 0;
  workload::Workload workload("threadtest",
                              "allocates OBJECTS of SIZE in all, frees all, ROUNDS times");
  workload.count("--threads", threads, "threads");
  workload.count("--size", size, "bytes an object");
  workload.count("--objects", objects, "objects of all threads together");
  workload.count("--rounds", rounds, 400, "rounds");
  workload.option("--work", work, "loop iterations between two calls");
  workload.parse(argc, argv);
  workload.require(objects >= threads, "--objects is below --threads");

  const size_t mine = objects / threads;
  workload.run(threads, [&](workload::Worker& worker, size_t) {
    workload::Blocks held(mine);
    for (size_t round = 0; round < rounds; ++round) {
      for (workload::Block& object : held) {
        workload::spin(work);
        object = worker.allocate(size);
      }
      for (const workload::Block& object : held) {
        workload::spin(work);
        worker.release(object);
      }
    }
  });
  return workload.report();
}
