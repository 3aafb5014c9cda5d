// How much dirty memory a shard keeps: the limit above which it gives memory back at once. The
// rules are in node/shard.h. Sizes are in slices.
// Guard: the lock of the shard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "span/layout.h"

namespace near {

class Keeping {
 public:
  // Sets the amount that always stays, once it is dirty.
  void keep(size_t slices) { kept_ = slices; }
  size_t kept() const { return kept_; }

  // Called when a run is freed. Returns true if enough was freed since the last look at the limit
  // for another one; the caller then reads the clock.
  bool count_freed(size_t slices) {
    unlooked_ += slices;
    return unlooked_ >= look_every_;
  }

  // Called when a run of at least kLargeRun slices is freed. Assumes that the program will need
  // blocks of this size again, several at a time: raises the learned limit to 8 of them, but
  // beyond 2 of them only up to a quarter of the recent peak of live memory, and at most to twice
  // `bound`, the shard's part of `dirty_mib`; only regret raises it further.
  static constexpr size_t kLargeRun = kMiB >> kSliceShift;
  void expect_another(size_t slices, size_t bound);

  // Called when clean memory is taken: if that is soon after the limit made the node purge some,
  // the limit was too low.
  void count_clean(uint32_t slices) {
    if (credit_ > 0) record_regret(slices);
  }

  // Called at a look at the limit, with the live slices and the shard's part of `dirty_mib`.
  // Returns the limit plus the amount that always stays.
  size_t look(uint64_t now_ms, size_t live, size_t bound);

  // Called after memory was purged because of the limit.
  void count_purged(uint64_t now_ms, size_t slices);

  // True if it is time to purge what is old enough: in a process without a purge thread.
  bool should_decay(uint64_t now_ms);

 private:
  void follow_peak(uint64_t now_ms, size_t live);
  size_t most() const;
  size_t limit() const;
  void forget_credit(uint64_t now_ms);
  void record_regret(uint32_t slices);

  uint64_t last_decay_ms_ = 0;
  size_t look_every_ = 0;   // slices freed between two looks: an eighth of the limit
  size_t unlooked_ = 0;     // freed since the last look
  size_t bound_ = 0;        // the shard's part of `dirty_mib`, as of the last look
  size_t peak_ = 0;         // recent peak of live slices; decays
  uint64_t peak_ms_ = 0;    // when the peak was last lowered
  size_t learned_ = 0;      // the limit without a purge thread
  size_t credit_ = 0;       // purged because of the limit, and not needed again so far
  uint64_t credit_ms_ = 0;  // when that last happened
  size_t regret_ = 0;       // purged because of the limit, and soon needed again
  size_t kept_ = 0;         // see `keep`
};

}  // namespace near
