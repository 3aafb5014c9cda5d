// A block with the stamp that proves it is nobody else's.
//
// Invariant: from write_stamp to read_stamp the first 8 and the last 8 bytes of the block hold its
// stamp (where they are the same bytes, what was written last). Two live blocks that overlap at an
// end of either change a stamp. Who may touch it: whoever holds the block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace workload {

struct Block {
  char* address = nullptr;
  size_t size = 0;
};

inline char* allocated(void* address, size_t size) {
  if (address == nullptr) {
    std::fprintf(stderr, "malloc(%zu) failed\n", size);
    std::exit(1);
  }
  return static_cast<char*>(address);
}

// Returns what is to be added to the sum of stamps read.
inline uint64_t read_stamp(const Block& block) {
  uint64_t first = 0, last = 0;
  std::memcpy(&first, block.address, std::min(block.size, sizeof first));
  if (block.size <= sizeof first) return first;
  std::memcpy(&last, block.address + block.size - sizeof last, sizeof last);
  return first + last;
}

// Returns what is to be added to the sum of stamps written.
inline uint64_t write_stamp(const Block& block, uint64_t stamp) {
  if (block.size >= 2 * sizeof stamp) {
    std::memcpy(block.address, &stamp, sizeof stamp);
    std::memcpy(block.address + block.size - sizeof stamp, &stamp, sizeof stamp);
    return 2 * stamp;
  }
  if (block.size > sizeof stamp) {
    std::memcpy(block.address, &stamp, sizeof stamp);
    std::memcpy(block.address + block.size - sizeof stamp, &stamp, sizeof stamp);
    return read_stamp(block);
  }
  uint64_t kept = 0;
  std::memcpy(&kept, &stamp, block.size);
  std::memcpy(block.address, &kept, block.size);
  return kept;
}

}  // namespace workload
