// Loose slots: each thread keeps a few for its next hazard pointers; the others are in the list of
// the domain, where any thread finds those that are free.
//
// Invariant: a slot that a thread keeps is empty and marked as taken. A thread that ends gives all
// back, so there are at most kKept slots for each living thread beyond the most that were in use.
// Thread-safety: any thread.
#include "nearmalloc/reclaim/impl/loose_slots.hpp"

#include <cstdlib>
#include <new>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "reclaim/process.h"

namespace near::reclaim::impl {

constinit thread_local KeptSlots kept_slots = {};

LooseSlot* Core::take_loose_slot() noexcept {
  KeptSlots& kept = kept_slots;
  if (kept.count > 0) return kept.slots[--kept.count];
  if (free_slots_.load(kRelaxed) > 0) {  // relaxed: a hint
    if (LooseSlot* slot = take_free_slot(loose_slots)) {
      free_slots_.fetch_sub(1, kRelaxed);  // relaxed: a hint
      return slot;
    }
  }
  void* room = nullptr;
  if (posix_memalign(&room, alignof(LooseSlot), sizeof(LooseSlot)) != 0) return nullptr;
  auto* const slot = new (room) LooseSlot(asymmetric);
  add_record(loose_slots, *slot);
  return slot;
}

void Core::give_back_loose_slot(LooseSlot& slot) noexcept {
  slot.empty();
  KeptSlots& kept = kept_slots;
  if (kept.count == KeptSlots::kMost) {
    free_slots_.fetch_add(1, kRelaxed);  // relaxed: a hint
    give_back_slot(slot);
    return;
  }
  if (kept.core == nullptr) {
    kept.core = this;
    watch_exit();
  }
  kept.slots[kept.count++] = &slot;
}

void Core::take_kept_slots(KeptSlots& kept) noexcept {
  for (; kept.count > 0; kept.count--) {
    free_slots_.fetch_add(1, kRelaxed);  // relaxed: a hint
    give_back_slot(*kept.slots[kept.count - 1]);
  }
}

void give_back_kept_slots() noexcept {
  KeptSlots& kept = kept_slots;
  if (kept.core != nullptr) kept.core->take_kept_slots(kept);
  kept = {};
}

}  // namespace near::reclaim::impl
