// Begins an operation of a structure: gives it slots of its own, so that it takes none in which the
// caller, or another operation, holds something. Under `checkpoints` it needs nothing yet, so the
// next section begins if the guard may: short operations under one guard let the epoch end, too.
// Thread-safety: only the guard's thread.
#pragma once

#include "nearmalloc/reclaim/impl/section.hpp"

namespace near::reclaim::impl {

// Returns a guard for one operation under `guard`; `guard` itself where nothing has to be held.
// Called once in an operation, before it reads anything.
//   auto&& own = own_slots(guard);
template <class Guard>
decltype(auto) own_slots(Guard& guard) noexcept {
  if constexpr (!Guard::protects_all && requires { guard.nested(); }) {
    return guard.nested();
  } else {
    if constexpr (has_sections<Guard>) guard.checkpoint();
    return (guard);
  }
}

}  // namespace near::reclaim::impl
