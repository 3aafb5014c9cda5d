#include "designs/hoard/size_class.h"

#include "base/assert.h"
#include "base/bits.h"
#include "designs/hoard/settings.h"

namespace near::design::hoard {

constinit SizeClasses size_classes;

void SizeClasses::make() {
  constexpr size_t kStep = 16;
  largest_ = settings.superblock() / 2;
  count_ = 0;
  size_t covered = 0;  // grains that have a class
  for (size_t size = kGrain; covered <= largest_ / kGrain;) {
    NEAR_ASSERT(count_ < kMaxClasses);
    sizes_[count_] = static_cast<uint32_t>(size);
    for (; covered <= size / kGrain; covered++) by_size_[covered] = static_cast<uint8_t>(count_);
    count_++;
    const size_t grown = align_down(size * settings.base_percent / 100, kStep);
    size = min_of(max_of(grown, align_down(size, kStep) + kStep), largest_);
  }
}

}  // namespace near::design::hoard
