// Gives an operation of a structure slots of its own, so that it takes none in which the caller, or
// another operation, holds something.
// Thread-safety: only the guard's thread.
#pragma once

namespace near::reclaim::impl {

// Returns a guard for one operation under `guard`; `guard` itself where nothing has to be held.
//   auto&& own = own_slots(guard);
template <class Guard>
decltype(auto) own_slots(Guard& guard) noexcept {
  if constexpr (!Guard::protects_all && requires { guard.nested(); }) {
    return guard.nested();
  } else {
    return (guard);
  }
}

}  // namespace near::reclaim::impl
