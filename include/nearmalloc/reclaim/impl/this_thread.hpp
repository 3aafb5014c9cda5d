// The domains that this thread recently used without a handle, so that finding its record takes two
// loads; and the thread's numbers.
// Thread-safety: only its own thread.
#pragma once

#include <cstdint>

namespace near::reclaim::impl {

class Core;
struct LooseSlot;
struct Record;

struct Recent {
  uint64_t serial;  // of the domain; 0: none
  Record* record;
};

inline constexpr unsigned kRecents = 8;
extern constinit thread_local Recent recents[kRecents];

// Empty slots of one domain, for the thread's next hazard pointers.
struct KeptSlots {
  static constexpr unsigned kMost = 8;
  Core* core;  // null: the thread has kept none yet
  unsigned count;
  LooseSlot* slots[kMost];
};
extern constinit thread_local KeptSlots kept_slots;

int32_t own_thread() noexcept;  // its kernel number

// An address that no other living thread has.
inline const void* this_user() noexcept { return &recents; }

// How often this process and its ancestors have forked since the first domain was made.
uint32_t fork_count() noexcept;

// A small number of the calling thread: the smallest that no living thread had when this one first
// asked. So it is less than the maximum number of threads that had one at the same time. If there
// are more than kThreadNumbers, the rest share numbers from kThreadNumbers on.
inline constexpr unsigned kThreadNumbers = 4096;
extern constinit thread_local unsigned own_number;  // the number + 1; 0: it has not asked yet
unsigned take_thread_number() noexcept;
inline unsigned thread_number() noexcept {
  return own_number != 0 ? own_number - 1 : take_thread_number();
}

}  // namespace near::reclaim::impl
