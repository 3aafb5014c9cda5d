// Which class of a heap serves which request. The fast path of malloc reads the table of the small
// requests; a copy for each heap lies on the thread's node, and saves an instruction.
//
// A heap begins with pairs of classes that are joined: the larger one serves the requests of both,
// so that a heap with few blocks of each size has fewer spans that are almost empty. Where it has
// many, the pair parts, and each class gets its own blocks. It is never joined again. Not joined
// are classes up to 128 bytes, whose blocks would be up to twice as large, and those above 2 KiB,
// whose blocks share few pages anyway.
//
// When the profiler starts, the table leads each small request to kEmptyBin, until the heap has
// given the blocks in the bin of the request's class their trials (heap/marks.h).
// Thread-safety: any thread reads. Changes require the heap's lock, unless no other thread knows
// the heap. A reader that meets a change gets a class that serves it anyway.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "sizes/size_class.h"

namespace near {

// The bin behind those of the classes. It never has a block.
inline constexpr unsigned kEmptyBin = kClasses;
static_assert(kEmptyBin <= UINT8_MAX);

class ClassTable {
 public:
  // For a small request: the class whose bin to try.
  NEAR_INLINE unsigned operator[](size_t size) const {
    return entries_[size].load(kRelaxed);  // relaxed: either value leads to a right block
  }

  // The class that serves the requests of a class: that one, or the next larger one.
  NEAR_INLINE unsigned in_use(unsigned size_class) const {
    return size_class + joined_[size_class].load(kRelaxed);  // relaxed: as above
  }

  // Begins: all classes are open. No other thread knows the heap yet.
  void begin() {
    for (unsigned c = kJoinedBegin; c < kJoinedEnd; c += 2)
      joined_[c].store(1, kRelaxed);  // relaxed: see above
    open_all();
  }

  // True if the next larger class may serve the requests of the class.
  static constexpr bool may_join(unsigned size_class) {
    return size_class >= kJoinedBegin && size_class < kJoinedEnd && size_class % 2 == 0;
  }

  // True if the class also serves the requests of the one below.
  bool serves_two(unsigned size_class) const {
    return size_class > 0 && in_use(size_class - 1) == size_class;
  }

  // Parts such a class from the one below.
  void part(unsigned size_class) {
    const unsigned below = size_class - 1;
    joined_[below].store(0, kRelaxed);  // relaxed: as above
    if (size_class >= kSmallClasses) return;
    for (size_t size = class_size(below - 1) + 1; size <= class_size(below); size++) {
      auto entry = static_cast<uint8_t>(size_class);  // it is another one while that is closed
      entries_[size].compare_exchange_strong(entry, static_cast<uint8_t>(below), kRelaxed,
                                             kRelaxed);  // relaxed: as above
    }
  }

  // The requests that a small class serves lead to kEmptyBin.
  void close_all() {
    for (Atomic<uint8_t>& entry : entries_) entry.store(kEmptyBin, kRelaxed);  // relaxed: as above
  }

  // The requests that a small class serves lead to its bin, as they do unless close_all was called.
  void open(unsigned size_class) {
    if (entries_[class_size(size_class)].load(kRelaxed) == size_class) return;  // relaxed: as above
    const size_t begin = size_class < 2 ? 0 : class_size(size_class - 2) + 1;
    for (size_t size = begin; size <= class_size(size_class); size++) {
      if (in_use(kClassOfSmall[size]) == size_class) set(size, size_class);
    }
  }
  void open_all() {
    for (size_t size = 0; size <= kSmallMax; size++) set(size, in_use(kClassOfSmall[size]));
  }

 private:
  void set(size_t size, unsigned entry) {
    entries_[size].store(static_cast<uint8_t>(entry), kRelaxed);  // relaxed: as above
  }

  static constexpr unsigned kJoinedBegin = class_of(129);
  static constexpr unsigned kJoinedEnd = class_of(2 * kKiB) + 1;
  static_assert(kJoinedBegin % 2 == 0 && kJoinedEnd % 2 == 0);
  // Aligned requests may be joined: the larger block is a multiple of the smaller one's alignment.
  static_assert([] {
    for (unsigned c = kJoinedBegin; c < kJoinedEnd; c += 2) {
      if (class_size(c + 1) % (class_size(c) & -class_size(c)) != 0) return false;
    }
    return true;
  }());

  Atomic<uint8_t> entries_[kSmallMax + 1] = {};
  Atomic<uint8_t> joined_[kClasses] = {};  // 1: the next class serves this one's requests
};

}  // namespace near
