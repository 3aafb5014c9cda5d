// What hazard_pointer_obj_base and rcu_obj_base have in common.
// Thread-safety: as std26 says.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/impl/unguarded.hpp"

namespace near::reclaim::impl {

// The private base of `Base<T, D>`, which befriends it: two words, and the deleter.
template <template <class, class> class Base, class T, class D>
class Std26Object : Retirable {
  friend class Base<T, D>;

  static T* object_at(Retirable& words) noexcept {
    return static_cast<T*>(static_cast<Base<T, D>*>(static_cast<Std26Object*>(&words)));
  }
  static void* address_of(Retirable& words) noexcept { return object_at(words); }

  // Moves the deleter out first, as it is a part of the object.
  static void destroy(void* address) noexcept {
    T* object = static_cast<T*>(address);
    D deleter = D();
    deleter = std::move(static_cast<Std26Object*>(static_cast<Base<T, D>*>(object))->deleter_);
    deleter(object);
  }

  static constexpr RetirableType kType{address_of, destroy, sizeof(T)};

  template <class Scheme>
  void retire_in(domain<Scheme>& domain, D&& deleter) noexcept {
    check_retired(object_at(*this));
    deleter_ = std::move(deleter);
    retire_with_words(domain, *this, kType);
  }

  [[no_unique_address]] D deleter_;
};

// The base of an object that is a specialization of `Base`. Deduction fails if there are two.
template <template <class, class> class Base, class T, class D>
Base<T, D>* base_of(Base<T, D>*);

template <template <class, class> class Base, class T, class D>
T protected_type(Base<T, D>*);

// Whether T is hazard-protectable or rcu-protectable, as the draft calls it. The conversion to the
// base is impossible if it is not public, and the cast back from it if it is virtual.
template <class T, template <class, class> class Base>
concept protectable = std::is_class_v<T> && requires(T* object) {
  static_cast<T*>(base_of<Base>(object));
  { protected_type<Base>(object) } -> std::same_as<T>;
};

}  // namespace near::reclaim::impl
