// Bins: the block sizes, and the layout of a chunk of a bin. [Kuszmaul15 §2]
//
// The sizes are 8; multiples of 16 c*2^k (c = 4..7) up to 256; primes times a cache line, and 9 and
// 15 lines, and the powers of two; then large blocks, few to a chunk. Powers of two above 64 serve
// only aligned requests, because blocks at multiples of them compete for the same cache lines.
// Invariants (asserted below): sizes ascend; a folio is a whole number of pages and of blocks; the
// blocks of a power of two lie at its multiples; a chunk's header and folios fit into it.
// Thread-safety: constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/bits.h"
#include "designs/super/folio.h"

namespace near::design::super {

inline constexpr size_t kChunk = 2 * kMiB;
inline constexpr size_t kPage = 4 * kKiB;
inline constexpr size_t kLine = 64;

inline constexpr uint32_t kSizes[] = {
    8,     16,    32,    48,     64,     80,     96,     112,  128,   160,   192,
    224,   256,   320,   448,    512,    576,    704,    960,  1024,  1216,  1472,
    1984,  2048,  2752,  3904,   4096,   5312,   7232,   8192, 10048, 14272,  // small
    16384, 32768, 65536, 131072, 258048, 520192, 1044480};                    // large
inline constexpr unsigned kBins = std::size(kSizes);
inline constexpr unsigned kSmallBins = 32;
inline constexpr size_t kLargestSmall = kSizes[kSmallBins - 1];
inline constexpr size_t kLargest = kSizes[kBins - 1];

struct Bin {
  uint64_t inverse;    // ceil(2^64 / size): offset * inverse < inverse <=> size divides offset
  uint32_t size;       // bytes of a block
  uint32_t first;      // offset of the first block in a chunk
  uint32_t per_folio;  // blocks in a folio; a large block is a folio of its own
  uint32_t folios;     // in a chunk

  constexpr size_t folio_bytes() const { return size_t{per_folio} * size; }
};

constexpr Bin make_bin(unsigned index) {
  const size_t size = kSizes[index];
  size_t per_folio = std::lcm(size, kPage) / size;
  if (size % kLine == 0) per_folio = 64;
  if (index >= kSmallBins) per_folio = 1;
  const size_t grain = is_power_of_two(size) ? max_of(size, kPage) : kPage;
  size_t folios = kChunk / (per_folio * size);
  while (align_up(folios * sizeof(Folio), grain) + folios * per_folio * size > kChunk) folios--;
  return {.inverse = UINT64_MAX / size + 1,
          .size = static_cast<uint32_t>(size),
          .first = static_cast<uint32_t>(align_up(folios * sizeof(Folio), grain)),
          .per_folio = static_cast<uint32_t>(per_folio),
          .folios = static_cast<uint32_t>(folios)};
}

constexpr std::array<Bin, kBins> make_bins() {
  std::array<Bin, kBins> bins{};
  for (unsigned i = 0; i < kBins; i++) bins[i] = make_bin(i);
  return bins;
}
inline constexpr std::array<Bin, kBins> kBinTable = make_bins();

// Maps the number of words of a small request to its bin.
constexpr std::array<uint8_t, kLargestSmall / 8 + 1> make_bin_of_words() {
  std::array<uint8_t, kLargestSmall / 8 + 1> bins{};
  unsigned bin = 0;
  for (size_t words = 0; words < bins.size(); words++) {
    while (kSizes[bin] < words * 8 || (kSizes[bin] > 64 && is_power_of_two(kSizes[bin]))) bin++;
    bins[words] = static_cast<uint8_t>(bin);
  }
  return bins;
}
inline constexpr std::array<uint8_t, kLargestSmall / 8 + 1> kBinOfWords = make_bin_of_words();

// The bin of a small request without an alignment of its own.
constexpr size_t small_bin(size_t size) { return kBinOfWords[(size + 7) / 8]; }

// The first bin from `from` on with blocks of at least `size` <= kLargest bytes.
constexpr unsigned bin_from(unsigned from, size_t size) {
  while (kSizes[from] < size) from++;
  return from;
}

constexpr bool bins_are_sound() {
  for (unsigned i = 0; i < kBins; i++) {
    const Bin& bin = kBinTable[i];
    if (i > 0 && kSizes[i - 1] >= bin.size) return false;
    if (bin.folios == 0 || bin.folio_bytes() % kPage != 0 || bin.first % kPage != 0) return false;
    if (bin.per_folio > Folio::kMaxBlocks) return false;
    if (bin.first + bin.folios * bin.folio_bytes() > kChunk) return false;
    if (is_power_of_two(bin.size) && bin.first % bin.size != 0) return false;
    if (bin.size % (bin.size < 16 ? 8 : 16) != 0) return false;
  }
  return true;
}
static_assert(bins_are_sound());
static_assert(kSizes[small_bin(0)] == 8 && kSizes[small_bin(9)] == 16);
static_assert(kSizes[small_bin(64)] == 64 && kSizes[small_bin(128)] == 160);
static_assert(kSizes[small_bin(kLargestSmall)] == kLargestSmall);

}  // namespace near::design::super
