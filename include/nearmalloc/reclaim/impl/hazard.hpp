// Hazard pointers: each thread publishes which objects it may touch.
//
//   protect  write the pointer into a slot, light fence, read the source again
//   collect  heavy fence, then read every slot of every record
// A record has rows of slots. A guard takes a row when it first holds something, and gives it back,
// empty, when it ends: no guard writes to the slots of another one, however they are nested.
// Invariants: an object that was unlinked before the heavy fence is in a slot that `collect` reads,
// or no thread that validated its pointer can touch it any more; a row belongs to one guard at a
// time; all slots that hold something are below `used`.
// Thread-safety: slots are written by their thread, read by any. Only the thread uses its rows,
// also in a signal handler, as a handler gives back the rows it took before it returns. [Michael04]
#pragma once

#include <bit>
#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fail.hpp"
#include "nearmalloc/reclaim/impl/fence.hpp"

namespace near::reclaim::impl {

inline constexpr unsigned kGuardSlots = kModel ? 2 : 16;  // of a guard
inline constexpr unsigned kRows = kModel ? 2 : 16;        // guards of a thread that hold something
inline constexpr unsigned kHazardSlots = kRows * kGuardSlots;

// The slots of one guard.
struct SlotRow {
  uint32_t bit = 0;    // the bit of its row in `free_rows`
  uint32_t first = 0;  // its row's first slot
  uint32_t size = 0;   // slots that it has used; 0: it has no row
};

struct HazardWords {
  Atomic<const void*> slots[kHazardSlots] = {};
  Atomic<uint32_t> used{0};                // slots ever used by this record
  uint32_t free_rows = (1u << kRows) - 1;  // a bit each; only the owner uses it

  // Publishes `object`. The caller reads its source again afterwards.
  void hold(SlotRow& row, unsigned slot, const void* object, bool asymmetric) {
    publish(row, slot, object);
    light_fence(asymmetric);
  }

  // The same without a fence: a thread that comes after a later release of this one sees it.
  void publish(SlotRow& row, unsigned slot, const void* object) {
    if (slot >= row.size) [[unlikely]]
      make_room(row, slot);
    slots[row.first + slot].store(object, kRelease);  // pairs: hazard
  }

  template <class T>
  T* protect(SlotRow& row, unsigned slot, const Atomic<T*>& source, bool asymmetric) {
    T* object = source.load(kRelaxed);  // relaxed: read again below
    for (;;) {
      hold(row, slot, object, asymmetric);
      T* again = source.load(kAcquire);  // pairs: program
      if (again == object) return object;
      object = again;
    }
  }

  // Empties the slots of a guard, which keeps its row.
  void clear(const SlotRow& row) {
    for (uint32_t i = 0; i < row.size; i++) empty(row.first + i);
  }

  void give_back(SlotRow& row) {
    if (row.size == 0) return;
    clear(row);
    free_rows ^= row.bit;
    row.size = 0;
  }

  // Requires that the owner has no guards, or no longer exists.
  void clear_all() {
    // relaxed: only the owner writes
    for (uint32_t i = 0, end = used.load(kRelaxed); i < end; i++) empty(i);
    free_rows = (1u << kRows) - 1;
  }

 private:
  void make_room(SlotRow& row, unsigned slot) {
    if (slot >= kGuardSlots) fail_with("a slot beyond guard::slots");
    if (row.size == 0) take_row(row);
    row.size = slot + 1;
    const uint32_t end = row.first + row.size;
    // relaxed: only the owner writes; `collect` reads it after the fence of `hold`, or after it
    // acquired the epoch that the owner announced next (section.hpp)
    if (used.load(kRelaxed) < end) used.store(end, kRelaxed);
  }

  void take_row(SlotRow& row) {
    if (free_rows == 0) fail_with("too many guards of one thread protect at a time");
    row.bit = free_rows & -free_rows;
    row.first = static_cast<uint32_t>(std::countr_zero(free_rows)) * kGuardSlots;
    free_rows ^= row.bit;
  }

  void empty(uint32_t index) { slots[index].store(nullptr, kRelease); }  // pairs: hazard
};

// Calls f(object) for every object in a slot. After what it wants to free was unlinked,
// the caller must have executed a heavy fence; under `checkpoints`, where slots are written without
// a light one, it must have acquired an epoch in which these objects have aged.
template <class Record, class F>
void collect_hazards(const Atomic<Record*>& head, F f) {
  // pairs: records
  for (Record* record = head.load(kAcquire); record != nullptr; record = record->next) {
    HazardWords& words = record->hazards;
    const uint32_t used = words.used.load(kRelaxed);  // relaxed: ordered by the fence or epoch
    for (uint32_t i = 0; i < used; i++) {
      const void* object = words.slots[i].load(kAcquire);  // pairs: hazard
      if (object != nullptr) f(object);
    }
  }
}

}  // namespace near::reclaim::impl
