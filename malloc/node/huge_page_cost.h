// Whether fresh huge pages are worth asking for now.
//
// On a virtual machine whose host takes idle memory away, the first touch of a huge page that the
// host has to provide again takes 3 to 10 ms. Small pages for the same 2 MiB take 1 ms, because the
// kernel gives out first what was in use lately. Where the host left the memory, and on a real
// machine, a huge page takes 0.1 to 0.4 ms. So a region times the first touch of a huge page each
// time that it grows. After a slow one it maps some chunks with small pages before it tries again:
// one chunk, then two, four and so on, until a touch is fast.
// Guard: the shard's lock of growing.
#pragma once

#include <cstdint>

namespace near {

class HugePageCost {
 public:
  // True if the next chunks get small pages.
  bool is_high() const { return small_left_ > 0; }

  // So many chunks got small pages because of that.
  void count_small(uint32_t chunks) { small_left_ -= chunks < small_left_ ? chunks : small_left_; }

  // The first touch of a huge page took so long.
  void record(uint64_t ns) {
    if (ns < kSlowNs) {
      small_after_slow_ = 0;
    } else if (small_after_slow_ < kMostSmall) {
      small_after_slow_ = small_after_slow_ == 0 ? 1 : 2 * small_after_slow_;
    }
    small_left_ = small_after_slow_;
  }

 private:
  static constexpr uint64_t kSlowNs = 2'000'000;
  static constexpr uint32_t kMostSmall = 32;

  uint32_t small_left_ = 0;        // chunks to map with small pages before the next try
  uint32_t small_after_slow_ = 0;  // how many there are after a slow touch
};

}  // namespace near
