// Size classes, each about b times the one before, up to half a superblock. [Berger00 §3]
// Invariant: sizes rise; all but the first, 8, are multiples of 16; a size exceeds the one before
// by 16, or is at most b times it.
// Thread-safety: made at start, read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace near::design::hoard {

inline constexpr unsigned kMaxClasses = 64;

class SizeClasses {
 public:
  // Makes the classes of the settings.
  void make();

  unsigned count() const { return count_; }
  size_t largest() const { return largest_; }
  uint32_t size(unsigned size_class) const { return sizes_[size_class]; }
  // The class of 0..largest() bytes.
  unsigned of(size_t bytes) const { return by_size_[(bytes + kGrain - 1) / kGrain]; }

 private:
  static constexpr size_t kGrain = 8;
  static constexpr size_t kMost = 32 * 1024;

  size_t largest_ = 0;
  unsigned count_ = 0;
  uint32_t sizes_[kMaxClasses] = {};
  uint8_t by_size_[kMost / kGrain + 1] = {};
};

extern SizeClasses size_classes NEAR_HIDDEN;

}  // namespace near::design::hoard
