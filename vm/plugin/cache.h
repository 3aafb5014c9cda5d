// A model of private caches. Each CPU has a set-associative one; a set evicts a line that another
// CPU has invalidated, or else the least recently used one. A directory knows of each line which
// caches hold it and which CPU wrote it.
//
// Invariant: a CPU's bit in a line's word says that its cache holds the line; then the line is in
// its set. A line has an owner only while no other cache holds it: the last CPU that wrote.
// Thread-safety: access() any thread, one at a time for each CPU; clear() while no thread counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "node_map.h"

namespace nearcount {

constexpr unsigned kMostCpus = 56;

struct CacheSize {
  size_t kib = 256;
  size_t ways = 8;
  size_t line = 64;

  size_t sets() const { return kib * 1024 / ways / line; }
};

struct Outcome {
  bool miss = false;
  bool bounce = false;   // a miss on a line that another CPU's cache holds as its writer
  bool upgrade = false;  // a store to a line that is here and in other caches too
};

// relaxed in this file: a line's word is all that the CPUs share; nothing is published by it.
class LineDirectory {
 public:
  explicit LineDirectory(size_t line);
  LineDirectory(const LineDirectory&) = delete;
  LineDirectory& operator=(const LineDirectory&) = delete;
  ~LineDirectory();

  Outcome read(unsigned cpu, uint64_t line);
  Outcome write(unsigned cpu, uint64_t line);
  // False: another CPU has written the line since.
  bool has(unsigned cpu, uint64_t line);
  // The CPU's cache has evicted the line.
  void drop(unsigned cpu, uint64_t line);
  void clear();

 private:
  // Low bits: the caches that hold the line; above them: the owner's number plus 1, or 0.
  using Word = std::atomic<uint64_t>;
  static constexpr uint64_t kHolders = (uint64_t{1} << kMostCpus) - 1;
  static uint64_t bit_of(unsigned cpu) { return uint64_t{1} << cpu; }
  static uint64_t owned_by(unsigned cpu) { return uint64_t{cpu + 1} << kMostCpus; }

  Word& word_of(uint64_t line);

  unsigned lines_bits_;  // lines of a granule, as a power of two
  std::unique_ptr<std::atomic<Word*>[]> granules_;
};

class CacheModel {
 public:
  CacheModel(size_t cpus, const CacheSize& size);

  // Requires: value < NodeMap::kEnd.
  Outcome access(unsigned cpu, uint64_t value, bool is_store);
  uint64_t line_of(uint64_t value) const { return value >> line_bits_; }
  void clear() { directory_.clear(); }

 private:
  static constexpr uint64_t kNoLine = ~uint64_t{0};

  using Place = std::vector<uint64_t>::iterator;

  // Makes the line the newest of its set, in the place of another one if it was not there.
  void take_in(unsigned cpu, uint64_t line);
  // The place of the line that the set evicts.
  Place leaving(unsigned cpu, Place set);

  size_t ways_;
  size_t sets_;
  unsigned line_bits_;
  std::vector<std::vector<uint64_t>> lines_;  // by CPU: sets of ways, the newest line first
  LineDirectory directory_;
};

}  // namespace nearcount
