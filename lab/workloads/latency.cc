#include "latency.h"

#include <nlohmann/json.hpp>

namespace workload {

void Latencies::add(const Latencies& other) {
  for (unsigned i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  if (other.largest_ > largest_) largest_ = other.largest_;
}

uint64_t Latencies::count() const {
  uint64_t sum = 0;
  for (const uint32_t bucket : buckets_) sum += bucket;
  return sum;
}

uint64_t Latencies::percentile(double part) const {
  const double wanted = part * static_cast<double>(count());
  uint64_t below = 0;
  for (unsigned i = 0; i < kBuckets; ++i) {
    below += buckets_[i];
    if (below != 0 && static_cast<double>(below) >= wanted) return start_of(i);
  }
  return largest_;
}

nlohmann::ordered_json to_json(const Latencies& latencies) {
  return {{"p50", latencies.percentile(0.5)},
          {"p90", latencies.percentile(0.9)},
          {"p99", latencies.percentile(0.99)},
          {"p99_9", latencies.percentile(0.999)},
          {"p99_99", latencies.percentile(0.9999)},
          {"max", latencies.largest()},
          {"samples", latencies.count()}};
}

}  // namespace workload
