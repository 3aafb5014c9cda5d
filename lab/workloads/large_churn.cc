// Allocates large blocks, writes every page and frees them, as images, matrices, network buffers.
// It shows the cost of returning memory to the system and faulting it in again. Our own.
#include "workload.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMiB = size_t{1} << 20;

// Writes a byte of every page; the stamp has already written the first and the last page.
void write_pages(const workload::Block& block) {
  for (size_t at = kPage; at + kPage < block.size; at += kPage) {
    block.address[at] = static_cast<char>(at / kPage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 1, held = 8, operations = 10'000, low = 1, high = 32;
  workload::Workload workload("large_churn", "replaces large blocks, writing all their pages");
  workload.count("--threads", threads, "threads");
  workload.count("--held", held, "live blocks of a thread");
  workload.count("--operations", operations, 1500, "replacements by one thread");
  workload.sizes(low, high, "MiB");
  workload.parse(argc, argv);

  const workload::Sizes sizes(low * kMiB, high * kMiB);
  workload.run(threads, [&](workload::Worker& worker, size_t index) {
    workload::Random random(index + 1);
    workload::Blocks blocks(held);
    for (size_t i = 0; i < operations; ++i) {
      workload::Block& block = blocks[random.below(held)];
      if (block.address != nullptr) worker.release(block);
      block = worker.allocate(sizes.pick(random));
      write_pages(block);
    }
    for (const workload::Block& block : blocks) {
      if (block.address != nullptr) worker.release(block);
    }
  });
  return workload.report();
}
