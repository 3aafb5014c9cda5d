// A set of page numbers of a user address space: one bit each, in leaves made when first needed.
//
// Invariant: a leaf is never deleted, so a thread that still holds it may write; clear() empties
// it. Thread-safety: any thread; a page that is added while clear() runs may or may not stay.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace nearcount {

constexpr unsigned kUserBits = 47;
constexpr uint64_t kUserEnd = uint64_t{1} << kUserBits;
constexpr unsigned kPageBits = 12;
constexpr unsigned kHugePageBits = 21;

constexpr uint64_t page_of(uint64_t address) { return address >> kPageBits; }

// relaxed in this file: membership is the only information; nothing is published by a bit.
class PageSet {
 public:
  PageSet() : leaves_(std::make_unique<std::atomic<Leaf*>[]>(kLeaves)) {}
  PageSet(const PageSet&) = delete;
  PageSet& operator=(const PageSet&) = delete;
  ~PageSet() {
    for (size_t i = 0; i < kLeaves; ++i) delete leaves_[i].load(std::memory_order_relaxed);
  }

  // True if the page was not in the set. Requires: page < 2^(kUserBits - kPageBits).
  bool add(uint64_t page) {
    std::atomic<uint64_t>& word = word_of(leaf(page >> kLeafBits), page);
    const uint64_t bit = uint64_t{1} << (page % 64);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
    return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

  // True if the page was in the set.
  bool remove(uint64_t page) {
    if (!has(page)) return false;
    const uint64_t bit = uint64_t{1} << (page % 64);
    std::atomic<uint64_t>& word = word_of(leaf(page >> kLeafBits), page);
    return (word.fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
  }

  bool has(uint64_t page) const {
    // pairs: page-leaf
    Leaf* const there = leaves_[page >> kLeafBits].load(std::memory_order_acquire);
    if (there == nullptr) return false;
    return (word_of(*there, page).load(std::memory_order_relaxed) >> (page % 64) & 1) != 0;
  }

  void clear() {
    for (size_t i = 0; i < kLeaves; ++i) {
      // pairs: page-leaf
      Leaf* const there = leaves_[i].load(std::memory_order_acquire);
      if (there == nullptr) continue;
      for (std::atomic<uint64_t>& word : *there) word.store(0, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr unsigned kLeafBits = 18;
  static constexpr size_t kWords = (size_t{1} << kLeafBits) / 64;
  static constexpr size_t kLeaves = size_t{1} << (kUserBits - kPageBits - kLeafBits);
  using Leaf = std::array<std::atomic<uint64_t>, kWords>;

  static std::atomic<uint64_t>& word_of(Leaf& leaf, uint64_t page) {
    return leaf[page / 64 % kWords];
  }

  Leaf& leaf(size_t index) {
    // pairs: page-leaf
    Leaf* there = leaves_[index].load(std::memory_order_acquire);
    if (there != nullptr) return *there;
    auto made = std::make_unique<Leaf>();
    // If two threads make it, one wins. pairs: page-leaf
    if (leaves_[index].compare_exchange_strong(there, made.get(), std::memory_order_acq_rel)) {
      there = made.release();
    }
    return *there;
  }

  std::unique_ptr<std::atomic<Leaf*>[]> leaves_;
};

}  // namespace nearcount
