// What an operation of a structure does with the guard it is given: slots of its own, so that it
// takes none of those in which the caller, or another operation, keeps something.
// Who may touch it: the guard's thread.
#pragma once

namespace near::reclaim::impl {

// A guard for one operation under `guard`; the same one where nothing has to be held.
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
