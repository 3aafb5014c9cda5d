#include "cache.h"

#include <algorithm>
#include <bit>

// relaxed in this file: see cache.h
namespace nearcount {

LineDirectory::LineDirectory(size_t line)
    : lines_bits_(NodeMap::kGranuleBits - static_cast<unsigned>(std::countr_zero(line))),
      granules_(std::make_unique<std::atomic<Word*>[]>(NodeMap::kGranules)) {}

LineDirectory::~LineDirectory() {
  for (size_t i = 0; i < NodeMap::kGranules; ++i) {
    delete[] granules_[i].load(std::memory_order_relaxed);
  }
}

LineDirectory::Word& LineDirectory::word_of(uint64_t line) {
  std::atomic<Word*>& granule = granules_[line >> lines_bits_];
  const size_t index = line & ((size_t{1} << lines_bits_) - 1);
  // pairs: granule
  Word* there = granule.load(std::memory_order_acquire);
  if (there == nullptr) {
    auto made = std::make_unique<Word[]>(size_t{1} << lines_bits_);
    // If two threads make it, one wins. pairs: granule
    if (granule.compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) {
      there = made.release();
    }
  }
  return there[index];
}

Outcome LineDirectory::read(unsigned cpu, uint64_t line) {
  Word& word = word_of(line);
  uint64_t old = word.load(std::memory_order_relaxed);
  uint64_t shared;
  do {
    if ((old & bit_of(cpu)) != 0) return {};
    shared = (old & kHolders) | bit_of(cpu);  // no CPU owns it any more
  } while (!word.compare_exchange_weak(old, shared, std::memory_order_relaxed));
  return {.miss = true, .bounce = (old & ~kHolders) != 0};
}

Outcome LineDirectory::write(unsigned cpu, uint64_t line) {
  Word& word = word_of(line);
  const uint64_t mine = owned_by(cpu) | bit_of(cpu);
  uint64_t old = word.load(std::memory_order_relaxed);
  do {
    if (old == mine) return {};
  } while (!word.compare_exchange_weak(old, mine, std::memory_order_relaxed));
  if ((old & bit_of(cpu)) == 0) return {.miss = true, .bounce = (old & ~kHolders) != 0};
  return {.upgrade = (old & kHolders) != bit_of(cpu)};
}

bool LineDirectory::has(unsigned cpu, uint64_t line) {
  return (word_of(line).load(std::memory_order_relaxed) & bit_of(cpu)) != 0;
}

void LineDirectory::drop(unsigned cpu, uint64_t line) {
  Word& word = word_of(line);
  uint64_t old = word.load(std::memory_order_relaxed);
  uint64_t left;
  do {
    const bool is_owner = (old & ~kHolders) == owned_by(cpu);
    left = (is_owner ? old & kHolders : old) & ~bit_of(cpu);
  } while (!word.compare_exchange_weak(old, left, std::memory_order_relaxed));
}

void LineDirectory::clear() {
  for (size_t i = 0; i < NodeMap::kGranules; ++i) {
    // pairs: granule
    Word* const there = granules_[i].load(std::memory_order_acquire);
    if (there == nullptr) continue;
    for (size_t line = 0; line < size_t{1} << lines_bits_; ++line) {
      there[line].store(0, std::memory_order_relaxed);
    }
  }
}

CacheModel::CacheModel(size_t cpus, const CacheSize& size)
    : ways_(size.ways),
      sets_(size.sets()),
      line_bits_(static_cast<unsigned>(std::countr_zero(size.line))),
      lines_(cpus, std::vector<uint64_t>(sets_ * ways_, kNoLine)),
      directory_(size.line) {}

Outcome CacheModel::access(unsigned cpu, uint64_t value, bool is_store) {
  const uint64_t line = line_of(value);
  take_in(cpu, line);
  return is_store ? directory_.write(cpu, line) : directory_.read(cpu, line);
}

void CacheModel::take_in(unsigned cpu, uint64_t line) {
  const Place set = lines_[cpu].begin() + static_cast<std::ptrdiff_t>((line & (sets_ - 1)) * ways_);
  if (*set == line) return;
  const Place end = set + static_cast<std::ptrdiff_t>(ways_);
  Place place = std::find(set, end, line);
  if (place == end) place = leaving(cpu, set);
  std::move_backward(set, place, place + 1);
  *set = line;
}

CacheModel::Place CacheModel::leaving(unsigned cpu, Place set) {
  const Place oldest = set + static_cast<std::ptrdiff_t>(ways_ - 1);
  for (Place place = oldest;; --place) {
    if (*place == kNoLine || !directory_.has(cpu, *place)) return place;
    if (place == set) break;
  }
  directory_.drop(cpu, *oldest);
  return oldest;
}

}  // namespace nearcount
