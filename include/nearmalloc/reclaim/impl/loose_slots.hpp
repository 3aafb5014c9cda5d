// Hazard slots that belong to no thread and no guard: std26::hazard_pointer has one each, and may
// be moved to another thread. All slots of a domain are in one list, which only grows.
//
//   protect  write the pointer into a slot, light fence, read the source again
//   collect  heavy fence, then read the slots of the whole list
// Invariants: a slot has one user at a time, which sees it empty; what is protected as hazard.hpp
// says is in a slot that `collect` reads.
// Thread-safety: any thread takes and gives back; only the user of a slot writes `object`.
// [Michael04]
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

// A line of its own: each user writes its slot at every protection.
struct alignas(64) LooseSlot {
  explicit LooseSlot(bool its_asymmetric) : asymmetric(its_asymmetric) {}

  Atomic<const void*> object{nullptr};
  Atomic<uint32_t> taken{1};  // 0: free
  LooseSlot* next = nullptr;  // in the list of all slots; constant once it is there
  const bool asymmetric;      // of the domain

  // Publishes `its_object`. The caller reads its source again afterwards.
  void hold(const void* its_object) {
    object.store(its_object, kRelease);  // pairs: hazard
    light_fence(asymmetric);
  }

  void empty() { object.store(nullptr, kRelease); }  // pairs: hazard
};

// Returns a slot that nobody uses, for the caller. Null: there is none.
template <class Slot>
Slot* take_free_slot(const Atomic<Slot*>& head) {
  // pairs: records
  for (Slot* slot = head.load(kAcquire); slot != nullptr; slot = slot->next) {
    uint32_t is_free = 0;
    // relaxed: only a hint, the exchange decides
    if (slot->taken.load(kRelaxed) == is_free &&
        slot->taken.compare_exchange_strong(is_free, 1, kAcquire, kRelaxed)) {  // pairs: loose-slot
      return slot;
    }
  }
  return nullptr;
}

// Requires that the slot is empty.
template <class Slot>
void give_back_slot(Slot& slot) {
  slot.taken.store(0, kRelease);  // pairs: loose-slot
}

// Calls f(object) for every object in a slot, after a heavy fence of the caller.
template <class Slot, class F>
void collect_loose(const Atomic<Slot*>& head, F f) {
  // pairs: records
  for (Slot* slot = head.load(kAcquire); slot != nullptr; slot = slot->next) {
    const void* object = slot->object.load(kAcquire);  // pairs: hazard
    if (object != nullptr) f(object);
  }
}

}  // namespace near::reclaim::impl
