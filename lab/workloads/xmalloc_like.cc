// Threads in a ring: each allocates blocks for the next thread and frees those of the previous one,
// so every free is remote, and every thread both allocates and frees. Sizes are mixed. With one
// thread, frees are local.
// Source: after xmalloc-test [Lever and Boreham 2000; Kuszmaul, ISMM 2015; mimalloc-bench], where
// separate threads allocate and free for a fixed time, and share one bag under a mutex (see
// malloc_test). Ring, sizes and fixed work are our own, as are links without a lock: a batch here
// is a thirtieth of theirs, so that a mutex would be a large part of the work.
#include <deque>

#include "batches.h"
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, rounds = 400'000, objects = 128, under_way = 4, low = 8, high = 1024;
  workload::Workload workload("xmalloc_like", "each thread frees what the one before allocated");
  workload.count("--threads", threads, "threads");
  workload.count("--rounds", rounds, 40'000, "batches that each thread allocates");
  workload.count("--objects", objects, "blocks in a batch");
  workload.count("--under-way", under_way, "batches between two threads that exist at a time");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  std::deque<workload::Link, workload::Mapped<workload::Link>> links;  // links[i] leads to thread i
  for (size_t i = 0; i < threads; ++i) links.emplace_back(under_way, objects);
  workload.run(threads, [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    workload::Link& in = links[index];
    workload::Link& out = links[(index + 1) % threads];
    for (size_t round = 0; round < rounds; ++round) {
      for (workload::Block& block : out.to_fill()) block = worker.allocate(sizes.pick(random));
      out.filled();
      for (const workload::Block& block : in.to_free()) worker.release(block);
      in.freed();
    }
  });
  return workload.report();
}
