// The numbers of mallctl: a copy of the allocator's statistics, and sets of numbers for arenas and
// thread caches.
//
// Arena 0 is the whole allocator. Arenas and caches of the program are mere numbers: their blocks
// come from arena 0, and are counted in arena 0.
// Thread-safety: any thread, without locks held. Each value of the copy is valid on its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "sizes/size_class.h"

namespace near::jemalloc {

// A set of numbers below kMost.
class NumberSet {
 public:
  static constexpr unsigned kMost = 4032;  // MALLOCX_ARENA and MALLOCX_TCACHE have 12 bits

  // Adds the lowest absent number; kMost if there is none.
  unsigned take();
  // False if the number was absent.
  bool give_back(uint64_t number);
  bool has(uint64_t number) const;
  // The highest number plus 1.
  unsigned end() const;

 private:
  static constexpr unsigned kBits = 64;
  static uint64_t bit(uint64_t number) { return uint64_t{1} << number % kBits; }

  Atomic<uint64_t> words_[kMost / kBits] = {};
};

inline constexpr uint64_t kAllArenas = 4096;        // MALLCTL_ARENAS_ALL
inline constexpr uint64_t kDestroyedArenas = 4097;  // MALLCTL_ARENAS_DESTROYED

extern NEAR_HIDDEN NumberSet made_arenas;  // arena i + 1
extern NEAR_HIDDEN NumberSet made_caches;

// The highest number of an arena plus 1.
inline unsigned arena_count() { return 1 + made_arenas.end(); }
inline bool is_arena(uint64_t index) { return index == 0 || made_arenas.has(index - 1); }

// The values of the copy. The first call makes the copy.
enum class Sum : unsigned {
  small,     // live blocks of size classes
  large,     // live large blocks
  active,    // spans
  dirty,     // free slices, still resident
  retained,  // free slices, mapped and without memory
  metadata,  // structures and descriptors
  purged,    // ever given back
  purge_calls,
  count,
};
uint64_t sum_of(Sum which);
uint64_t live_blocks(unsigned size_class);
// The blocks in the spans of the class, live or free.
uint64_t room_of(unsigned size_class);

// Makes the copy anew. Returns the number of copies so far.
uint64_t refresh();
// The number of copies so far, 1 or more.
uint64_t epoch();

}  // namespace near::jemalloc
