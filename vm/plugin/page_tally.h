// How often one CPU accessed each page, in memory of a fixed size.
//
// Invariant: the sum of all numbers is the number of calls of add(); a page that finds no free
// place within kTries of its hash is counted in others_. Thread-safety: add() one thread at a time;
// clear() and the rest while no thread counts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nearcount {

// relaxed in this file: one writer; other threads read only between regions.
class PageTally {
 public:
  static constexpr size_t kPlaces = 4096;

  void add(uint64_t page) {
    const size_t start = static_cast<size_t>(page * kSpread >> 32);
    for (size_t i = 0; i < kTries; ++i) {
      Place& place = places_[(start + i) % kPlaces];
      const uint64_t there = place.page.load(std::memory_order_relaxed);
      if (there == kNone) place.page.store(page, std::memory_order_relaxed);
      if (there == kNone || there == page) return increment(place.number);
    }
    increment(others_);
  }

  // visit(page, number) for each page that has a place.
  template <typename Visit>
  void each(Visit visit) const {
    for (const Place& place : places_) {
      const uint64_t page = place.page.load(std::memory_order_relaxed);
      if (page != kNone) visit(page, place.number.load(std::memory_order_relaxed));
    }
  }
  uint64_t others() const { return others_.load(std::memory_order_relaxed); }

  void clear() {
    for (Place& place : places_) {
      place.page.store(kNone, std::memory_order_relaxed);
      place.number.store(0, std::memory_order_relaxed);
    }
    others_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
  static constexpr size_t kTries = 32;

  struct Place {
    std::atomic<uint64_t> page{kNone};
    std::atomic<uint64_t> number{0};
  };

  static void increment(std::atomic<uint64_t>& number) {
    number.store(number.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::array<Place, kPlaces> places_;
  std::atomic<uint64_t> others_{0};
};

}  // namespace nearcount
