// Every thread allocates and frees in random order; sizes are 10 to 1024 bytes, mostly small. It
// models a program whose objects have unrelated lifetimes. Each step picks a place at random: an
// empty place gets a block; the block of a taken place is freed, or resized in --resized percent
// of the cases. Source: the phong benchmark of Hoard's collection [Berger et al., ASPLOS 2000],
// after Kiem-Phong Vo's test of Vmalloc; parameters of [Boritz]: 100,000 allocations divided by
// the threads, without realloc. The choice of lifetimes is our own.
#include "workload.h"

int main(int argc, char** argv) {
  size_t threads = 2, allocations = 100'000, places = 2000, resized = 0, low = 10, high = 1024;
  workload::Workload workload("phong", "allocates and frees at random moments, sizes mostly small");
  workload.count("--threads", threads, "threads");
  workload.count("--allocations", allocations, 16'000'000, "allocations of all threads together");
  workload.count("--places", places, "places for a thread's blocks; half of them are taken");
  workload.option("--resized", resized, "percent of the taken places that are resized, not freed");
  workload.sizes(low, high);
  workload.parse(argc, argv);
  workload.require(resized <= 99, "--resized is above 99");

  const workload::Sizes sizes(low, high);
  workload.run(threads, [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    workload::Blocks held(places);
    for (size_t left = allocations / threads; left > 0;) {
      workload::Block& block = held[random.below(places)];
      if (block.address == nullptr) {
        block = worker.allocate(sizes.pick(random));
        --left;
      } else if (resized != 0 && random.below(100) < resized) {
        block = worker.resize(block, sizes.pick(random));
      } else {
        worker.release(block);
        block = {};
      }
    }
    for (const workload::Block& block : held) {
      if (block.address != nullptr) worker.release(block);
    }
  });
  return workload.report();
}
