// Grows blocks by realloc: vectors grow by half to many MiB, a string grows a little at a time, and
// many small strings grow side by side, so that none can always grow in place.
// Our own.
#include "workload.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kKiB = 1024;
constexpr size_t kMiB = kKiB * kKiB;

// Grows to `size` and writes a byte of every new page, but not over the stamp.
void grow(workload::Worker& worker, workload::Block& buffer, size_t size) {
  const size_t before = buffer.size;
  buffer = worker.resize(buffer, size);
  const size_t first = std::max(before, workload::kStampedEnd);
  for (size_t at = first; at + workload::kStampedEnd < size; at += kPage) {
    buffer.address[at] = static_cast<char>(at / kPage);
  }
}

void grow_by_half(workload::Worker& worker, size_t limit) {
  workload::Block buffer;
  for (size_t size = 64; size < limit; size += size / 2) grow(worker, buffer, size);
  worker.release(buffer);
}

void grow_in_steps(workload::Worker& worker, size_t limit, size_t step) {
  workload::Block buffer;
  for (size_t size = step; size < limit; size += step) grow(worker, buffer, size);
  worker.release(buffer);
}

void grow_side_by_side(workload::Worker& worker, size_t count, size_t limit, size_t step) {
  workload::Blocks buffers(count);
  for (size_t size = step; size < limit; size += step) {
    for (workload::Block& buffer : buffers) grow(worker, buffer, size);
  }
  for (const workload::Block& buffer : buffers) worker.release(buffer);
}

}  // namespace

int main(int argc, char** argv) {
  size_t threads = 1, rounds = 400, limit_mib = 32;
  workload::Workload workload("realloc_growth", "grows buffers by half, in steps, many at a time");
  workload.count("--threads", threads, "threads");
  workload.count("--rounds", rounds, 80, "rounds of each thread");
  workload.count("--limit", limit_mib, "how far a vector grows, in MiB");
  workload.parse(argc, argv);

  workload.run(threads, [&](workload::Worker& worker, size_t) {
    for (size_t round = 0; round < rounds; ++round) {
      grow_by_half(worker, limit_mib * kMiB);
      grow_in_steps(worker, limit_mib * kMiB / 4, 4 * kKiB);
      grow_in_steps(worker, 64 * kKiB, 24);
      grow_side_by_side(worker, 1000, 4 * kKiB, 96);
    }
  });
  return workload.report();
}
