// A run of the profiler, and what it says then.
// Thread-safety: one test at a time.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "heap/chance.h"
#include "node/memory.h"
#include "profile/profiler.h"
#include "profile/stack.h"

namespace near_test {

// The sums over all sites.
struct ProfileTotals {
  uint64_t samples = 0;
  near::profile::Weight allocated, live, peak, freed, remote, moved;
  double variance = 0, live_variance = 0;
  double lifetimes = 0, remote_lifetimes = 0;
  uint64_t waste = 0, moved_distance = 0;

  // How far an estimate is from the truth, in standard deviations.
  static double deviations(uint64_t estimate, uint64_t truth, double variance) {
    const double difference = static_cast<double>(estimate) - static_cast<double>(truth);
    return difference == 0 ? 0 : difference / std::sqrt(variance);
  }
  static double blocks(const near::profile::Weight& weight) {
    return static_cast<double>(weight.blocks) / near::profile::kBlockUnit;
  }
};

inline ProfileTotals profile_totals() {
  ProfileTotals sum;
  near::profile::SiteCopy copy;
  for (uint32_t i = 0; near::profile::copy_site(i, copy); i++) {
    const near::profile::Site& site = copy.site;
    sum.samples += site.samples;
    sum.allocated += site.allocated;
    sum.live += site.live;
    sum.peak += site.peak;
    sum.freed += site.freed;
    sum.remote += site.remote;
    sum.moved += site.moved;
    sum.moved_distance += site.moved_distance;
    sum.lifetimes += site.lifetimes;
    sum.remote_lifetimes += site.remote_lifetimes;
    sum.variance += site.variance;
    sum.live_variance += site.live_variance;
    sum.waste += site.waste;
  }
  return sum;
}

constexpr size_t kEveryBlock = 1;  // the mean at which nearly every block is sampled

inline bool is_sampled(const void* block) {
  return near::span_of(block)->sampled != near::Sampled::none;
}

// A block that is sampled; the profiler runs at kEveryBlock.
inline char* sampled(size_t size) {
  void* block = near_malloc(size);
  while (!is_sampled(block)) {
    near_free(block);
    block = near_malloc(size);
  }
  return static_cast<char*>(block);
}

class Profiling {
 public:
  explicit Profiling(size_t mean, uint64_t seed = 1) {
    near::profile::prepare_stacks(false);
    started_ = near::profile::start(mean, seed) == near::profile::Started::yes;
  }
  ~Profiling() { near::profile::stop(); }
  Profiling(const Profiling&) = delete;
  Profiling& operator=(const Profiling&) = delete;

  bool started() const { return started_; }

 private:
  bool started_;
};

}  // namespace near_test
