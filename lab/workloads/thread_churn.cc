// Thousands of short threads, a few at a time. Each allocates a little, frees the blocks that the
// thread before it left, and leaves some of its own. It measures start and end of a thread's heap,
// and orphans. Our own.
#include "stack.h"
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, generations = 100'000, blocks = 200, left = 20, low = 16, high = 1024;
  workload::Workload workload("thread_churn", "short threads that leave blocks to the next one");
  workload.count("--threads", threads, "threads at a time");
  workload.count("--generations", generations, 20'000,
                 "threads that follow each other, of all chains together");
  workload.count("--blocks", blocks, "blocks that a thread allocates");
  workload.option("--left", left, "of these, blocks that it leaves");
  workload.sizes(low, high);
  workload.parse(argc, argv);
  workload.require(generations >= threads, "--generations is below --threads");
  workload.require(left <= blocks, "--left is above --blocks");

  const workload::Sizes sizes(low, high);
  const auto chain = [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    workload::Stack stack;
    workload::Blocks held(blocks), inherited;
    inherited.reserve(left);
    for (size_t generation = 0; generation < generations / threads; ++generation) {
      auto live = [&] {
        workload::settle(index);
        for (workload::Block& block : held) block = worker.allocate(sizes.pick(random));
        for (const workload::Block& block : inherited) worker.release(block);
        inherited.assign(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(left));
        for (size_t i = left; i < blocks; ++i) worker.release(held[i]);
      };
      stack.run(live);
    }
    for (const workload::Block& block : inherited) worker.release(block);
  };
  workload.run(threads, chain, 1);
  return workload.report();
}
