// A histogram of call times in buckets of 1/8 of a power of two, so a percentile is right within
// 12.5 %. Invariant: the sum of the buckets is count(). Thread-safety: one thread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

namespace workload {

class Latencies {
 public:
  void record(uint64_t ns) {
    ++buckets_[bucket_of(ns)];
    if (ns > largest_) largest_ = ns;
  }
  void add(const Latencies& other);

  uint64_t count() const;
  // The lower end, in ns, of the bucket that contains the given quantile, 0 <= part <= 1.
  uint64_t percentile(double part) const;
  uint64_t largest() const { return largest_; }

 private:
  static constexpr unsigned kSteps = 8;  // buckets for each power of two
  static constexpr unsigned kBuckets = kSteps * 40;

  // Below 8 ns each value has a bucket; above, the three bits after the leading one select it.
  static unsigned bucket_of(uint64_t ns) {
    if (ns < kSteps) return static_cast<unsigned>(ns);
    const unsigned power = static_cast<unsigned>(std::bit_width(ns)) - 4;
    const unsigned bucket = kSteps * (power + 1) + static_cast<unsigned>(ns >> power) - kSteps;
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static uint64_t start_of(unsigned bucket) {
    if (bucket < kSteps) return bucket;
    const unsigned power = bucket / kSteps - 1;
    return uint64_t{kSteps + bucket % kSteps} << power;
  }

  std::array<uint32_t, kBuckets> buckets_{};
  uint64_t largest_ = 0;
};

// {"p50": .., "p90": .., "p99": .., "p99_9": .., "p99_99": .., "max": .., "samples": ..}, in ns.
nlohmann::ordered_json to_json(const Latencies& latencies);

}  // namespace workload
