// Deleters of any type: a call d(object) that waits to be made.
// Thread-safety: the thread that retires, then the thread that frees.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/impl/limbo.hpp"

namespace near::reclaim::impl {

// Without a state, any deleter of the type does what this one does: nothing has to be stored.
template <class D>
concept stateless = std::is_empty_v<D> && std::is_trivially_copyable_v<D> &&
                    std::is_trivially_default_constructible_v<D>;

template <class T, class D>
void call_stateless(void* object) noexcept {
  D destroy{};
  destroy(static_cast<T*>(object));
}

// 0: the type has no size, or none yet.
template <class T>
constexpr size_t bytes_of() {
  if constexpr (requires { sizeof(T); }) return sizeof(T);
  return 0;
}

template <class T, class D>
struct DeferredCall : Retirable {
  DeferredCall(T* its_object, D&& d) : object(its_object), destroy(std::move(d)) {}

  static void* address_of(Retirable& words) noexcept { return static_cast<DeferredCall*>(&words); }
  static void run(void* address) noexcept {
    auto* const call = static_cast<DeferredCall*>(address);
    call->destroy(call->object);
    delete call;
  }
  static constexpr RetirableType kType{address_of, run, sizeof(T*) + sizeof(D)};

  T* object;
  [[no_unique_address]] D destroy;
};

}  // namespace near::reclaim::impl
