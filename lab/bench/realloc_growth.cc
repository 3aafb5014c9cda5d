// Blocks that grow by realloc: vectors that grow by half to many MiB, a string that grows a little
// at a time, and many small strings that grow side by side, so that none can always stay in place.
#include "bench.h"

namespace {

class Buffer {
 public:
  ~Buffer() { std::free(data_); }

  // Grows to `size` and writes a byte of every page that is new.
  void grow(size_t size) {
    char* const moved = static_cast<char*>(std::realloc(data_, size));
    if (moved == nullptr) std::exit(1);
    data_ = moved;
    for (size_t at = size_; at < size; at += 4096) data_[at] = static_cast<char>(at >> 12);
    data_[size - 1] = 1;
    size_ = size;
  }

  size_t size() const { return size_; }
  unsigned char last() const { return static_cast<unsigned char>(data_[size_ - 1]); }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

uint64_t operations = 0;

uint64_t grow_by_half(size_t limit) {
  Buffer buffer;
  for (size_t size = 64; size < limit; size += size / 2, ++operations) buffer.grow(size);
  return buffer.size() + buffer.last();
}

uint64_t grow_in_steps(size_t limit, size_t step) {
  Buffer buffer;
  for (size_t size = step; size < limit; size += step, ++operations) buffer.grow(size);
  return buffer.size() + buffer.last();
}

uint64_t grow_side_by_side(size_t count, size_t limit, size_t step) {
  std::vector<Buffer> buffers(count);
  for (size_t size = step; size < limit; size += step) {
    for (Buffer& buffer : buffers) buffer.grow(size), ++operations;
  }
  return buffers.back().size() + buffers.back().last();
}

}  // namespace

int main(int argc, char** argv) {
  constexpr size_t kKiB = 1024;
  constexpr size_t kMiB = kKiB * kKiB;
  size_t rounds = 40, limit_mib = 32;
  bench::Bench bench("realloc_growth", "grows buffers by half, in steps, and many at a time");
  bench.option("--rounds", rounds, "rounds");
  bench.option("--limit", limit_mib, "how far a vector grows, in MiB");
  bench.parse(argc, argv);

  uint64_t checksum = 0;
  const double start = bench::now();
  for (size_t round = 0; round < rounds; ++round) {
    checksum += grow_by_half(limit_mib * kMiB);
    checksum += grow_in_steps(limit_mib * kMiB / 4, 4 * kKiB);
    checksum += grow_in_steps(64 * kKiB, 24);
    checksum += grow_side_by_side(1000, 4 * kKiB, 96);
  }
  return bench.report(bench::now() - start, operations, checksum);
}
