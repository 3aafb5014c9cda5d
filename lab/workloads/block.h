// A block with a stamp at both ends, which detects that two live blocks overlap.
//
// Invariant: from write_stamp to read_stamp the first and the last kStampedEnd bytes of the block
// hold copies of its stamp (where the ends overlap, the last copy is complete). Two live blocks
// change each other's stamps if they share up to 31 bytes, as from an allocator that makes blocks a
// unit too short, or if they begin or end at one address. Thread-safety: only the thread that holds
// the block; a workload writes only between the ends.
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

constexpr size_t kStampedEnd = 16;

inline uint64_t word_at(const Block& block, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, block.address + at, sizeof word);
  return word;
}

// Returns the summand for the sum of stamps read.
inline uint64_t read_stamp(const Block& block) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t size = block.size;
  if (size > 2 * kWord) {
    return word_at(block, 0) + word_at(block, kWord) + word_at(block, size - 2 * kWord) +
           word_at(block, size - kWord);
  }
  if (size > kWord) return word_at(block, 0) + word_at(block, size - kWord);
  uint64_t word = 0;
  std::memcpy(&word, block.address, size);
  return word;
}

// Returns the summand for the sum of stamps written.
inline uint64_t write_stamp(const Block& block, uint64_t stamp) {
  const uint64_t twice[] = {stamp, stamp};
  static_assert(sizeof twice == kStampedEnd);
  if (block.size >= 2 * kStampedEnd) {
    std::memcpy(block.address, twice, kStampedEnd);
    std::memcpy(block.address + block.size - kStampedEnd, twice, kStampedEnd);
    return 4 * stamp;
  }
  const size_t end = std::min(block.size, kStampedEnd);
  std::memcpy(block.address, twice, end);
  std::memcpy(block.address + block.size - end, twice, end);
  return read_stamp(block);
}

}  // namespace workload
