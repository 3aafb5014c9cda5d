// The work of the programs that measure other libraries' sets. It is that of `set_updates`
// (lab/workloads): a fixed number of inserts, erases and finds of uniform keys in [0, keys), by
// threads that start together, on a set that updates have made half full.
// Invariants: operation i is the same whichever thread executes it, so equal options give an equal
// checksum,
//   sum over all operations of mixed(i);
// and the set holds the keys that were put in, by number and by sum:
//   sum of its keys = sum of keys inserted - sum of keys erased.
// Thread-safety: a program's main; each Tally is one thread's.
// Source: the protocol of [Kim23 §3.1], with the work fixed instead of the time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "workload.h"

namespace reclaim_lab {

using Key = int64_t;

// The hash and the number of buckets of hash maps that do not grow.
struct Hash {
  size_t operator()(Key key) const { return (static_cast<size_t>(key) * 0x9e3779b97f4a7c15) >> 32; }
};
constexpr size_t kBuckets = size_t{1} << 16;

// A hash: every bit of the result depends on every bit of `number`. [Steele14, splitmix64]
inline uint64_t mixed(uint64_t number) {
  uint64_t word = (number + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// Hands out numbers of operations in chunks, so threads finish within one chunk of each other.
class Numbers {
 public:
  Numbers(uint64_t first, uint64_t count) : next_(first), end_(first + count) {}

  // Calls each(number) for every number that the calling thread gets.
  template <typename F>
  void take_all(F each) {
    for (;;) {
      // relaxed: only the number itself is shared
      const uint64_t begin = next_.fetch_add(kChunk, std::memory_order_relaxed);
      if (begin >= end_) return;
      const uint64_t end = std::min(begin + kChunk, end_);
      for (uint64_t number = begin; number != end; ++number) each(number);
    }
  }

 private:
  static constexpr uint64_t kChunk = 64;
  alignas(128) std::atomic<uint64_t> next_;
  const uint64_t end_;
};

// The counts of one thread. Aligned, so that no two threads' counters share a cache line.
struct alignas(128) Tally {
  uint64_t operations = 0;
  uint64_t checksum = 0;
  uint64_t inserted = 0;
  uint64_t erased = 0;
  uint64_t key_sum = 0;  // inserted keys less erased keys, modulo 2^64

  void add(const Tally& other) {
    operations += other.operations;
    checksum += other.checksum;
    inserted += other.inserted;
    erased += other.erased;
    key_sum += other.key_sum;
  }
};

class SetWork {
 public:
  explicit SetWork(workload::Workload& workload) : workload_(workload) {
    workload.count("--threads", threads_, "threads that share the set");
    workload.count("--operations", operations_, 1'000'000, "of all threads together");
    workload.count("--keys", keys_, "keys are below it");
    workload.option("--updates", updates_, "percent of operations that insert or erase");
  }

  void check() const {
    workload_.require(updates_ <= 100, "--updates is above 100");
    workload_.require(keys_ <= UINT32_MAX, "--keys is above 2^32 - 1");
    workload_.require(operations_ >= threads_, "--operations is below --threads");
  }

  size_t threads() const { return threads_; }
  size_t keys() const { return keys_; }

  // Runs the measured region and its proof. `Set` has insert, erase and contains, for any thread;
  // for_each, which calls a function with each key, for one. If there is a Set::Thread, each thread
  // has one while it uses the set.
  template <typename Set>
  void run(Set& set) {
    const Tally before = prefill(set);
    Numbers numbers(0, operations_);
    std::vector<Tally> tallies(threads_);
    workload_.run(threads_, [&](workload::Worker&, size_t index) {
      tallies[index] = operate(set, numbers, updates_);
    });
    Tally measured;
    for (const Tally& tally : tallies) measured.add(tally);
    prove(set, before, measured);
  }

 private:
  static constexpr uint64_t kPrefillNumbers = uint64_t{1} << 40;  // the region uses lower numbers

  template <typename Set>
  static auto join() {
    if constexpr (requires { typename Set::Thread; }) {
      return typename Set::Thread();
    } else {
      return 0;
    }
  }

  // Executes two updates for each key, after which half of the keys less 2 % are in the set.
  template <typename Set>
  Tally prefill(Set& set) const {
    Numbers numbers(kPrefillNumbers, 2 * keys_);
    const size_t processors = std::max(1U, std::thread::hardware_concurrency());
    std::vector<Tally> tallies(std::min(threads_, processors));
    std::vector<std::thread> threads;
    for (Tally& tally : tallies) {
      threads.emplace_back([&] { tally = operate(set, numbers, 100); });
    }
    for (std::thread& thread : threads) thread.join();
    Tally total;
    for (const Tally& tally : tallies) total.add(tally);
    return total;
  }

  template <typename Set>
  Tally operate(Set& set, Numbers& numbers, size_t updates) const {
    [[maybe_unused]] const auto joined = join<Set>();
    Tally tally;
    numbers.take_all([&](uint64_t number) {
      const uint64_t word = mixed(number);
      const auto key = static_cast<Key>(((word >> 32) * keys_) >> 32);
      const bool updating = (word & 0xffff) * 100 >> 16 < updates;
      if (!updating) {
        set.contains(key);
      } else if ((word >> 16 & 1) != 0) {
        insert(set, key, tally);
      } else {
        erase(set, key, tally);
      }
      tally.checksum += word;
      ++tally.operations;
    });
    return tally;
  }

  template <typename Set>
  static void insert(Set& set, Key key, Tally& tally) {
    if (!set.insert(key)) return;
    ++tally.inserted;
    tally.key_sum += static_cast<uint64_t>(key);
  }

  template <typename Set>
  static void erase(Set& set, Key key, Tally& tally) {
    if (!set.erase(key)) return;
    ++tally.erased;
    tally.key_sum -= static_cast<uint64_t>(key);
  }

  template <typename Set>
  void prove(Set& set, const Tally& before, const Tally& measured) {
    [[maybe_unused]] const auto joined = join<Set>();
    uint64_t size = 0, key_sum = 0;
    set.for_each([&](Key key) {
      ++size;
      key_sum += static_cast<uint64_t>(key);
    });
    Tally all = before;
    all.add(measured);
    const bool holds = key_sum == all.key_sum && size == all.inserted - all.erased;
    workload_.prove(measured.checksum, measured.operations, holds, "the keys do not add up");
    workload_.add("ops_per_s", static_cast<double>(measured.operations) / workload_.seconds());
    workload_.add("inserted", measured.inserted);
    workload_.add("erased", measured.erased);
    workload_.add("prefilled", before.inserted - before.erased);
    workload_.add("size", size);
  }

  workload::Workload& workload_;
  size_t threads_ = 2;
  size_t operations_ = 20'000'000;
  size_t keys_ = 1000;
  size_t updates_ = 100;
};

}  // namespace reclaim_lab
