// What interfaces without our guards are made of: std26 and the C interface.
// Thread-safety: any thread.
#pragma once

#include "nearmalloc/reclaim/domain.hpp"

namespace near::reclaim::impl {

struct Unguarded {
  // The record that the calling thread uses without a handle. Null: no memory.
  template <class Scheme>
  static Record* record(domain<Scheme>& domain) noexcept {
    return domain.mine();
  }
  template <class Scheme>
  static Core& core(domain<Scheme>& domain) noexcept {
    return domain.core_;
  }
};

// False: there is no memory, and the object is still the caller's.
template <class Scheme>
bool try_retire(domain<Scheme>& domain, void* object, deleter destroy, size_t bytes) noexcept {
  Record* record = Unguarded::record(domain);
  if (record == nullptr) return false;
  begin_guard<Scheme>(*record);
  record->core->adopt_aside(*record);
  const bool is_taken = Scheme::retire(*record, object, destroy, bytes);
  end_guard<Scheme>(*record);
  return is_taken;
}

// Retires an object that has words, and so can wait for memory: it is never lost. Only then are its
// words written to: until it is destroyed, readers may copy it.
template <class Scheme>
void retire_with_words(domain<Scheme>& domain, Retirable& words,
                       const RetirableType& type) noexcept {
  if (try_retire(domain, type.object_of(words), type.destroy, type.bytes)) [[likely]]
    return;
  words.type = &type;
  Unguarded::core(domain).set_aside(words);
}

}  // namespace near::reclaim::impl
