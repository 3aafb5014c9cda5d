// A base for objects that are retired under `ibr` and `hyaline`: it notes the era in which the
// object is made.
//
//   struct Node : near::reclaim::born { ... };
//
// A thread that stalls does not keep objects that were born later. An object without this base
// counts as one that was always there: every thread keeps it that was pinned when it was retired.
// Thread-safety: that of any object.
#pragma once

#include <cstdint>
#include <type_traits>

#include "nearmalloc/reclaim/impl/interval.hpp"

namespace near::reclaim {

namespace impl {

extern EraClock eras;  // of the process; reclaim/intervals.cc

template <class T>
uint64_t birth_of(const T* object) noexcept;

}  // namespace impl

class born {
 public:
  born() noexcept : birth_(impl::read_birth(impl::eras)) {}
  // A copy is another object, and an object to which one is assigned stays the same.
  born(const born&) noexcept : born() {}
  born& operator=(const born&) noexcept { return *this; }

 private:
  template <class T>
  friend uint64_t impl::birth_of(const T* object) noexcept;

  uint64_t birth_;
};

namespace impl {

template <class T>
uint64_t birth_of([[maybe_unused]] const T* object) noexcept {
  if constexpr (requires { sizeof(T); }) {
    if constexpr (std::is_base_of_v<born, T>) return static_cast<const born*>(object)->birth_;
  }
  return 0;
}

// The base of a structure's nodes: `born` if the structure's guards need it.
struct unborn {};
template <class Guard>
inline constexpr bool has_births = requires { requires Guard::has_births; };
template <class Guard>
using born_under = std::conditional_t<has_births<Guard>, born, unborn>;

// Whether what the guard held last is protected, if the caller has found it reachable since.
template <class Guard>
bool still_holds(Guard& guard) noexcept {
  if constexpr (has_births<Guard>) {
    return guard.still_holds();
  } else {
    return true;
  }
}

}  // namespace impl
}  // namespace near::reclaim
