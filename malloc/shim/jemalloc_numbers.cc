// relaxed in this file: numbers are handed on by the program, and each value of a copy is valid on
// its own; two copies at once leave some values of each
#include "shim/jemalloc_numbers.h"

#include "base/bits.h"
#include "inspect/live_blocks.h"
#include "inspect/statistics.h"
#include "node/memory.h"
#include "node/node.h"

namespace near::jemalloc {

constinit NumberSet made_arenas;
constinit NumberSet made_caches;

unsigned NumberSet::take() {
  for (unsigned w = 0; w < kMost / kBits; w++) {
    uint64_t seen = words_[w].load(kRelaxed);
    while (~seen != 0) {
      const uint64_t lowest = ~seen & (seen + 1);
      if (words_[w].compare_exchange_weak(seen, seen | lowest, kRelaxed, kRelaxed)) {
        return w * kBits + log2_floor(lowest);
      }
    }
  }
  return kMost;
}

bool NumberSet::give_back(uint64_t number) {
  if (number >= kMost) return false;
  return (words_[number / kBits].fetch_and(~bit(number), kRelaxed) & bit(number)) != 0;
}

bool NumberSet::has(uint64_t number) const {
  return number < kMost && (words_[number / kBits].load(kRelaxed) & bit(number)) != 0;
}

unsigned NumberSet::end() const {
  for (unsigned w = kMost / kBits; w-- > 0;) {
    const uint64_t word = words_[w].load(kRelaxed);
    if (word != 0) return w * kBits + log2_floor(word) + 1;
  }
  return 0;
}

namespace {

constinit Atomic<uint64_t> copies{0};
constinit Atomic<uint64_t> sums[static_cast<unsigned>(Sum::count)];
constinit Atomic<uint64_t> live[kClasses];
constinit Atomic<uint64_t> room[kClasses];

void store(Sum which, uint64_t value) { sums[static_cast<unsigned>(which)].store(value, kRelaxed); }

uint64_t bytes_of_metadata() {
  uint64_t bytes = metadata_bytes();
  visit_windows(
      [](const Window& window, void* sum) {
        *static_cast<uint64_t*>(sum) += (window.described_bytes() >> kSliceShift) * sizeof(Span);
      },
      &bytes);
  return align_up(bytes, kPageSize);
}

void copy_statistics() {
  LiveBlocks blocks;
  count_live(blocks);
  for (unsigned c = 0; c < kClasses; c++) {
    live[c].store(blocks.classes[c].live, kRelaxed);
    room[c].store(blocks.classes[c].capacity, kRelaxed);
  }
  near_stats stats;
  gather_statistics(stats);
  const uint64_t small = blocks.bytes();
  const uint64_t active = max_of(stats.in_spans, align_up(small + stats.large, kPageSize));
  store(Sum::small, small);
  store(Sum::large, stats.large);
  store(Sum::active, active);
  store(Sum::dirty, stats.dirty);
  store(Sum::retained, stats.committed - min_of(stats.committed, active + stats.dirty));
  store(Sum::metadata, bytes_of_metadata());
  store(Sum::purged, stats.purged);
  store(Sum::purge_calls, stats.purge_calls);
}

}  // namespace

uint64_t refresh() {
  copy_statistics();
  return copies.fetch_add(1, kRelaxed) + 1;
}

uint64_t epoch() {
  const uint64_t made = copies.load(kRelaxed);
  return made != 0 ? made : refresh();
}

uint64_t sum_of(Sum which) {
  epoch();
  return sums[static_cast<unsigned>(which)].load(kRelaxed);
}

uint64_t live_blocks(unsigned size_class) {
  epoch();
  return live[size_class].load(kRelaxed);
}

uint64_t room_of(unsigned size_class) {
  epoch();
  return room[size_class].load(kRelaxed);
}

}  // namespace near::jemalloc
