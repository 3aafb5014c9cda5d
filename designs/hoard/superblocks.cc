#include "designs/hoard/superblocks.h"

namespace near::design::hoard {

constinit Superblocks superblocks;

bool Superblocks::start() {
  constexpr size_t kMost = size_t{1} << 44;
  return arena_.size() > 0 || arena_.reserve(kMost, 8 * kMiB, kChunk, kChunk);
}

Superblock* Superblocks::take_fresh() {
  if (next_ == end_) {
    auto* first = static_cast<Superblock*>(arena_.take(kChunk));
    if (first == nullptr) return nullptr;
    const size_t count = kChunk >> settings.superblock_shift;
    next_ = first + div_up(count * sizeof(Superblock), settings.superblock());
    end_ = first + count;
  }
  return next_++;
}

}  // namespace near::design::hoard
