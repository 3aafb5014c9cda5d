// Each thread holds a set of blocks of very different sizes and keeps replacing random ones: the
// steady state of a program with caches. It tests reuse inside partly filled spans. With
// `--warm-up N` each thread fills its set and replaces N blocks before the region, so the region
// has no first use of memory. Our own.
#include "workload.h"

namespace {

struct Set {
  workload::Random random;
  workload::Blocks held;
};

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 2, blocks = 20'000, operations = 50'000'000, warm_up = 0, low = 16, high = 4096;
  workload::Workload workload("churn", "replaces random blocks of a set, sizes mostly small");
  workload.count("--threads", threads, "threads");
  workload.count("--blocks", blocks, "live blocks of one thread");
  workload.count("--operations", operations, 5'000'000, "replacements by one thread");
  workload.option("--warm-up", warm_up, "replacements by one thread before, which do not count");
  workload.sizes(low, high);
  workload.parse(argc, argv);

  const workload::Sizes sizes(low, high);
  const auto fill = [&](workload::Worker& worker, Set& set) {
    set.held.resize(blocks);
    for (workload::Block& block : set.held) block = worker.allocate(sizes.pick(set.random));
  };
  const auto replace = [&](workload::Worker& worker, Set& set, size_t times) {
    for (size_t i = 0; i < times; ++i) replace_one(worker, set.held, sizes, set.random);
  };
  const auto prepare = [&](workload::Worker& worker, size_t index) {
    Set set{workload::Random(index + 1), {}};
    if (warm_up != 0) {
      fill(worker, set);
      replace(worker, set, warm_up);
      worker.forget();
    }
    return set;
  };
  workload.run_prepared(threads, prepare, [&](workload::Worker& worker, Set& set) {
    if (warm_up == 0) fill(worker, set);
    replace(worker, set, operations);
    for (const workload::Block& block : set.held) worker.release(block);
  });
  return workload.report();
}
