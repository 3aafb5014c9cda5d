// Producers fill batches of 4096 objects, consumers free them; all share one queue. It models
// stages of a pipeline under load: every free is remote, and frees come in bursts.
// Source: Lever and Boreham's malloc-test, USENIX 2000, in the form of SuperMalloc's evaluation
// [Kuszmaul, ISMM 2015], and with its bag of at most 100 batches under one mutex. It runs for a
// fixed time; here, as in its variant of fixed work, the number of batches is fixed.
#include "batches.h"
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 1, batches = 40'000, objects = 4096, under_way = 100, low = 64, high = 64;
  workload::Workload workload("malloc_test", "producers allocate batches, consumers free them");
  workload.count("--threads", threads, "producers, and as many consumers");
  workload.count("--batches", batches, 4000, "batches of all producers together");
  workload.count("--objects", objects, "objects in a batch");
  workload.count("--under-way", under_way, "batches between the threads at a time");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  workload::Bag bag(under_way + 2 * threads, objects);
  workload.run(2 * threads, [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    const bool produces = index < threads;
    workload::Batch* batch = produces ? bag.fill(nullptr) : bag.drain(nullptr);
    for (size_t left = batches / threads; left > 0; --left) {
      if (produces) {
        for (workload::Block& object : *batch) object = worker.allocate(sizes.pick(random));
        batch = bag.fill(batch, left == 1);
      } else {
        for (const workload::Block& object : *batch) worker.release(object);
        batch = bag.drain(batch, left == 1);
      }
    }
  });
  return workload.report();
}
