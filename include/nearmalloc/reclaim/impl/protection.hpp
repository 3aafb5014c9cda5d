// What a guard does for the pointers that are read under it, by kind of scheme: the bases of the
// schemes in schemes.hpp.
//
// Invariant: under each kind, what `protect` returned stays valid as guard.hpp says.
// Thread-safety: only the record's owner.
#pragma once

#include <span>

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"

namespace near::reclaim::impl {

// Begins a guard inside another, or a handler's inside the library. `is_announced`: the scheme's
// announcement is out, as it is in every settled pin, except at the start of one of Token EBR.
inline void nest(Record& record, bool is_announced) noexcept {
  if (record.stay.is_unsettled() || !is_announced) [[unlikely]]
    return pin_unsettled(record);
  record.stay.add_guard();
}

// For schemes under which pointers need no protection beyond the guard.
struct ProtectsAll {
  static constexpr bool protects_all = true;
  static void nest(Record& record) noexcept { impl::nest(record, true); }
  struct Slots {
    template <class T>
    T* protect(Record&, unsigned, const Atomic<T*>& source) noexcept {
      return source.load(kAcquire);  // pairs: program
    }
    void hold(Record&, unsigned, const void*) noexcept {}
    void clear(Record&) noexcept {}
    void give_back(Record&) noexcept {}
  };
};

struct ProtectsSlots {
  static constexpr bool protects_all = false;
  static void nest(Record& record) noexcept { impl::nest(record, true); }
  struct Slots {
    template <class T>
    T* protect(Record& record, unsigned slot, const Atomic<T*>& source) noexcept {
      return record.hazards.protect(row, slot, source, record.core->asymmetric);
    }
    void hold(Record& record, unsigned slot, const void* object) noexcept {
      record.hazards.hold(row, slot, object, record.core->asymmetric);
    }
    void clear(Record& record) noexcept { record.hazards.clear(row); }
    void give_back(Record& record) noexcept { record.hazards.give_back(row); }

    SlotRow row;
  };
};

// For the scheme under which pointers need no protection beyond the guard, and the guard may have
// sections.
struct ProtectsSections {
  static constexpr bool protects_all = true;
  static void nest(Record& record) noexcept { impl::nest(record, true); }
  struct Slots : ProtectsAll::Slots {
    void clear(Record& record) noexcept { record.hazards.clear(row); }
    void give_back(Record& record) noexcept { record.hazards.give_back(row); }
    void publish(Record& record, std::span<const void* const> objects) noexcept {
      unsigned slot = 0;
      for (const void* object : objects) record.hazards.publish(row, slot++, object);
      while (slot < row.size) record.hazards.publish(row, slot++, nullptr);
    }
    bool may_begin_section(const Record& record) const noexcept {
      return allows_checkpoints && record.stay.has_one_guard() &&
             is_asked(record.core->clock, record.epoch);
    }

    SlotRow row;
    bool allows_checkpoints = false;
  };
};

// For schemes under which a thread protects what lived in the eras that it noted.
class EraSlots {
 public:
  template <class T>
  T* protect(Record& record, unsigned, const Atomic<T*>& source) noexcept {
    return protect_by_era(eras, record.interval, source, record.core->asymmetric);
  }
  void hold(Record& record, unsigned, const void*) noexcept {
    era_ = extend(eras, record.interval, record.core->asymmetric);
  }
  bool still_holds() const noexcept { return is_still(eras, era_); }
  void clear(Record&) noexcept {}
  void give_back(Record&) noexcept {}

 private:
  uint64_t era_ = 0;  // of the last `hold`
};

}  // namespace near::reclaim::impl
