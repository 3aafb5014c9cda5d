// Hazard pointers: each thread says which objects it may touch.
//
//   protect  write the pointer into a slot, light fence, read the source again
//   collect  heavy fence, then read every slot of every record
// Invariant: an object that was unlinked before the heavy fence is in a slot that `collect` reads,
// or nobody who validated its pointer can touch it any more.
// Who may touch it: slots are written by their thread, read by any. [Michael04]
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr unsigned kHazardSlots = kModel ? 2 : 64;

struct HazardWords {
  Atomic<const void*> slots[kHazardSlots] = {};
  Atomic<uint32_t> used{0};  // slots ever used by this record

  // Publishes `object`. The caller reads its source again afterwards.
  void hold(unsigned slot, const void* object, bool asymmetric) {
    if (slot >= kHazardSlots) [[unlikely]]
      __builtin_trap();
    // relaxed: only the owner writes; `collect` reads it after the fence
    if (slot >= used.load(kRelaxed)) [[unlikely]]
      used.store(slot + 1, kRelaxed);
    slots[slot].store(object, kRelease);  // pairs: hazard
    light_fence(asymmetric);
  }

  template <class T>
  T* protect(unsigned slot, const Atomic<T*>& source, bool asymmetric) {
    T* object = source.load(kRelaxed);  // relaxed: read again below
    for (;;) {
      hold(slot, object, asymmetric);
      T* again = source.load(kAcquire);  // pairs: program
      if (again == object) return object;
      object = again;
    }
  }

  void clear() {
    // relaxed: only the owner writes
    for (uint32_t i = 0, end = used.load(kRelaxed); i < end; i++) {
      // relaxed: the owner's own; an empty slot needs no store
      if (slots[i].load(kRelaxed) == nullptr) continue;
      slots[i].store(nullptr, kRelease);  // pairs: hazard
    }
  }
};

// Calls f(object) for everything that somebody holds. The caller executed a heavy fence after the
// objects it wants to free were unlinked.
template <class Record, class F>
void collect_hazards(const Atomic<Record*>& head, F f) {
  // pairs: records
  for (Record* record = head.load(kAcquire); record != nullptr; record = record->next) {
    HazardWords& words = record->hazards;
    const uint32_t used = words.used.load(kRelaxed);  // relaxed: ordered by the fence
    for (uint32_t i = 0; i < used; i++) {
      const void* object = words.slots[i].load(kAcquire);  // pairs: hazard
      if (object != nullptr) f(object);
    }
  }
}

}  // namespace near::reclaim::impl
