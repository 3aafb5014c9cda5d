// A folio: a run of whole pages and whole blocks of a bin, the unit in which memory goes back to
// the system. Its description is stored in the header of its chunk. [Kuszmaul15 §2]
// Invariant: `free` == the number of ones in `bits`.
// Thread-safety: guarded by the lock of its bin's global cache.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace near::design::super {

struct Folio {
  static constexpr unsigned kMaxBlocks = 512;

  Folio* next;  // in a list of FullestFit
  Folio* prev;
  uint32_t free;
  bool carved;                     // false: none of its blocks has ever been handed out
  uint64_t bits[kMaxBlocks / 64];  // ones: free blocks

  // Makes all `blocks` blocks free.
  void carve(uint32_t blocks) {
    for (unsigned i = 0; i < kMaxBlocks / 64; i++) {
      const uint32_t before = i * 64;
      bits[i] = blocks >= before + 64 ? ~uint64_t{0}
                : blocks > before     ? (uint64_t{1} << (blocks - before)) - 1
                                      : 0;
    }
    free = blocks;
    carved = true;
  }

  // Takes the lowest free block; there must be one.
  uint32_t take() {
    unsigned word = 0;
    while (bits[word] == 0) word++;
    const auto bit = static_cast<unsigned>(std::countr_zero(bits[word]));
    bits[word] &= bits[word] - 1;
    free--;
    return word * 64 + bit;
  }

  // Returns false and does nothing if the block is free or was never handed out.
  bool put(uint32_t block) {
    const uint64_t bit = uint64_t{1} << block % 64;
    if (!carved || (bits[block / 64] & bit) != 0) return false;
    bits[block / 64] |= bit;
    free++;
    return true;
  }
};

}  // namespace near::design::super
