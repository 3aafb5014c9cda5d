// A heap: its superblocks by size class, and by fullness within a class. Heap 0 is the global one;
// a thread uses one of the others, and that heap alone. [Berger00 §3]
//
// Invariant of heaps other than the global one, for each class, in blocks: let u be those handed
// out and a those of its superblocks. After a free, u >= a - K capacity or u >= (1 - f) a. After a
// malloc too, if K > 0; a K of 0 lets the heap keep the superblock that a malloc has just taken.
// A superblock is on the list of its group, and `with_empty_` has the classes whose group 0 is not
// empty.
// Thread-safety: any thread that holds `lock()`. A thread that holds it may take the global heap's.
#pragma once

#include "base/list.h"
#include "designs/hoard/size_class.h"
#include "designs/hoard/superblock.h"
#include "designs/shared/ranks.h"

namespace near::design::hoard {

class alignas(64) Heap {
 public:
  struct Totals {
    size_t in_use = 0;    // bytes in blocks that are handed out
    size_t given = 0;     // superblocks that went to the global heap
    size_t got = 0;       // that came from there
    size_t fresh = 0;     // that were never used before
    size_t recycled = 0;  // wholly free ones that changed their class

    void add(const Totals& other) {
      in_use += other.in_use;
      given += other.given;
      got += other.got;
      fresh += other.fresh;
      recycled += other.recycled;
    }
  };

  constexpr explicit Heap(Rank rank) : lock_(rank) {}

  // A block of the class; null if memory is refused.
  void* take(unsigned size_class);

  // Frees the block, of a superblock of this heap. Gives superblocks to the global heap as long as
  // the class has too many free blocks.
  Freed put(Superblock* superblock, void* block);

  // Gives the memory of wholly free superblocks back to the system. True if there was any.
  bool trim();

  Totals totals() const;
  Mutex& lock() { return lock_; }

  // Whether the invariant holds.
  bool check() const;

 private:
  struct Class {
    List<Superblock> groups[kGroups];
    size_t used = 0;  // u
    size_t held = 0;  // a
  };

  void* try_take(unsigned size_class);
  bool acquire(unsigned size_class);
  Superblock* release(unsigned size_class);
  Superblock* with_room(unsigned size_class);
  Superblock* recycle(unsigned size_class);
  Superblock* emptiest(unsigned size_class) const;
  bool is_too_empty(unsigned size_class, size_t slack) const;
  void keep_invariant(unsigned size_class);
  void add(Superblock* superblock);
  void remove(Superblock* superblock);
  void file(Superblock* superblock);
  void unfile(Superblock* superblock);
  bool check(unsigned size_class) const;

  Mutex lock_;
  uint64_t with_empty_ = 0;
  Totals totals_;
  Class classes_[kMaxClasses];
};
static_assert(kMaxClasses <= 64, "bits of with_empty_");

}  // namespace near::design::hoard
