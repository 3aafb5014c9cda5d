// Blocks of more than 2 KiB that a heap's thread freed, and that their spans have not got back: the
// next malloc of the class takes the one that came last, without a lock and while it is in the
// cache.
//
// Such a block comes from a cold span that was full otherwise. To give it back at once would file
// the span as reusable, and the next malloc would take the block and file the span back.
// A spare block counts as live in its span, so the span does not leave; hence a class has spare
// blocks only if it has many spans, and a free that finds more than its share returns them.
// Invariant: a spare block is on no list. Its span belongs to the heap: before a span goes to
// another heap, the spare blocks of its class are returned.
// Thread-safety: only the owner of the heap takes; a caller that puts or removes has the owner's
// rights and the lock, so fork finds each block at one place, or lost with the thread that took it.
#pragma once

#include <cstdint>

#include "base/atomic.h"
#include "base/bits.h"
#include "sizes/size_class.h"
#include "span/free_list.h"

namespace near {

class SpareBlocks {
 public:
  static constexpr uint32_t kMost = 4;  // of a class

  // How many a class with so many spans may have.
  static constexpr uint32_t share_of(uint32_t spans) {
    return spans < kLeastSpans
               ? 0
               : static_cast<uint32_t>(min_of(1 + (spans - kLeastSpans) / 2, kMost));
  }

  static constexpr bool is_for(unsigned size_class) { return !is_crowded(size_class); }

  uint32_t count(unsigned size_class) const {
    return counts_[size_class].load(kRelaxed);  // relaxed: a hint
  }

  bool has(unsigned size_class, const Block* block) const {
    for (uint32_t i = 0; i < count(size_class); i++) {
      if (blocks_[place(size_class)][i] == block) return true;
    }
    return false;
  }

  // Puts a block in; there are fewer than kMost.
  void put(unsigned size_class, Block* block) {
    const uint32_t before = count(size_class);
    blocks_[place(size_class)][before] = block;
    set_count(size_class, before + 1);
  }

  // Takes the block out that came last; null if there is none.
  Block* take(unsigned size_class) {
    const uint32_t before = count(size_class);
    if (before == 0 || !is_for(size_class)) return nullptr;
    Block* block = blocks_[place(size_class)][before - 1];
    set_count(size_class, before - 1);
    return block;
  }

  // Calls visit(size_class, block) for each. With the owner's rights.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (unsigned c = kCrowdedClasses; c < kClasses; c++) {
      for (uint32_t i = 0; i < count(c); i++) visit(c, blocks_[place(c)][i]);
    }
  }

 private:
  static constexpr uint32_t kLeastSpans = 4;
  static constexpr unsigned place(unsigned size_class) { return size_class - kCrowdedClasses; }
  void set_count(unsigned size_class, uint32_t count) {
    // relaxed: only a caller with the owner's rights writes it
    counts_[size_class].store(static_cast<uint8_t>(count), kRelaxed);
  }

  Atomic<uint8_t> counts_[kClasses] = {};  // 0 for the classes up to 2 KiB
  Block* blocks_[kClasses - kCrowdedClasses][kMost] = {};
};

}  // namespace near
