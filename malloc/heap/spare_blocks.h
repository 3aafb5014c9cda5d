// Blocks of more than 1 KiB that a heap's thread freed, and that their spans have not got back: the
// next malloc of the class takes the one that came last, without a lock and while it is in the
// cache.
//
// Such a block comes from a cold span that is nearly full. To give it back at once would often file
// the span as reusable, and the next malloc would take the block and file the span back. The blocks
// of a span that empties go back to it, so that it can leave.
// A spare block counts as live in its span, so the span does not leave; hence a class has spare
// blocks only if it has many spans, and returns those that exceed its share.
// Invariant: a spare block is on no list. Its span belongs to the heap, is cold, and its frees do
// not take the fast path (Span::frees_are_fast), which would not notice that such a block is freed
// twice: before a span becomes hot or goes to another heap, its spare blocks are returned.
// Thread-safety: only the owner of the heap; fork finds each block at one place, or lost with the
// thread that took it. `set_room`: any thread with the heap's lock.
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

  static constexpr bool is_for(unsigned size_class) { return size_class >= kSmallClasses; }

  // How many a class with so many spans may have.
  static constexpr uint32_t share_of(uint32_t spans) {
    return spans < kLeastSpans
               ? 0
               : static_cast<uint32_t>(min_of(1 + (spans - kLeastSpans) / 2, kMost));
  }

  // Those of one class.
  class OfClass {
   public:
    uint32_t count() const { return count_.load(kRelaxed); }  // relaxed: only the owner writes it
    uint32_t room() const { return room_.load(kRelaxed); }    // relaxed: a policy
    // Any thread, with the heap's lock. relaxed: a policy
    void set_room(uint32_t room) { room_.store(static_cast<uint8_t>(room), kRelaxed); }

    bool has(const Block* block) const {
      for (uint32_t i = count(); i-- > 0;) {
        if (blocks_[i] == block) return true;
      }
      return false;
    }

    // Puts a block in; there are fewer than kMost.
    void put(Block* block) {
      const uint32_t before = count();
      blocks_[before] = block;
      count_.store(static_cast<uint8_t>(before + 1), kRelease);  // pairs: forked-list
    }

    // Takes the block out that came last; null if there is none.
    Block* take() {
      const uint32_t before = count();
      if (before == 0) return nullptr;
      Block* block = blocks_[before - 1];
      count_.store(static_cast<uint8_t>(before - 1), kRelease);  // pairs: forked-list
      return block;
    }

    bool any_within(const char* begin, size_t bytes) const {
      return find_within(begin, bytes) < count();
    }
    // Takes a block out that lies in this range; null if there is none.
    Block* take_within(const char* begin, size_t bytes) {
      const uint32_t place = find_within(begin, bytes);
      if (place == count()) return nullptr;
      Block* block = blocks_[place];
      blocks_[place] = take();  // the last one takes its place
      return block;
    }

   private:
    uint32_t find_within(const char* begin, size_t bytes) const {
      uint32_t place = 0;
      while (place < count() &&
             blocks_[place]->address() - reinterpret_cast<uintptr_t>(begin) >= bytes) {
        place++;
      }
      return place;
    }

    friend class SpareBlocks;
    Block* blocks_[kMost] = {};
    Atomic<uint8_t> count_{0};
    Atomic<uint8_t> room_{0};  // the class's share
  };

  // Requires is_for(size_class).
  OfClass& of(unsigned size_class) { return classes_[size_class - kSmallClasses]; }
  const OfClass& of(unsigned size_class) const { return classes_[size_class - kSmallClasses]; }

  // Calls visit(size_class, block) for each.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (unsigned c = kSmallClasses; c < kClasses; c++) {
      for (uint32_t i = 0; i < of(c).count(); i++) visit(c, of(c).blocks_[i]);
    }
  }

 private:
  static constexpr uint32_t kLeastSpans = 4;

  OfClass classes_[kClasses - kSmallClasses];
};

}  // namespace near
