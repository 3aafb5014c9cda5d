// Where superblocks are: chunks of 2 MiB, each with the descriptions of its superblocks at its
// start. A description is found from an address by masks.
//
// Invariant: the chunk's first superblocks, which the descriptions fill, have no owner.
// Thread-safety: any thread, except `take_fresh`, which the global heap's lock guards.
#pragma once

#include "designs/hoard/superblock.h"
#include "designs/shared/arena.h"

namespace near::design::hoard {

class Superblocks {
 public:
  static constexpr size_t kChunk = 2 * kMiB;

  // False if memory is refused.
  bool start();

  bool contains(const void* address) const { return arena_.contains(address); }
  // The superblock that contains the address, which `contains` it; null if none was taken there.
  Superblock* of(const void* address) const {
    if (!arena_.has_given(address)) return nullptr;
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto* first = reinterpret_cast<Superblock*>(align_down(at, kChunk));
    Superblock* found = first + (at % kChunk >> settings.superblock_shift);
    // relaxed: a thread that has a block there received it after the owner was set
    return found->owner.load(kRelaxed) != nullptr ? found : nullptr;
  }

  // A superblock that was never used, without an owner; null if memory is refused.
  Superblock* take_fresh();

  const design::Arena& arena() const { return arena_; }

 private:
  design::Arena arena_;
  Superblock* next_ = nullptr;  // in the newest chunk
  Superblock* end_ = nullptr;
};

extern Superblocks superblocks NEAR_HIDDEN;

}  // namespace near::design::hoard
