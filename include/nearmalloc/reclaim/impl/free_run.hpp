// How plain memory is freed: `retire` uses this for objects whose destructor does nothing.
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

#include "nearmalloc/reclaim/impl/limbo.hpp"

// Null unless nearmalloc is in the process.
extern "C" {
[[gnu::weak]] size_t near_free_batch(void* const* blocks, size_t count) noexcept;
[[gnu::weak]] size_t near_malloc_usable_size(void* block) noexcept;
}

namespace near::reclaim::impl {

inline void delete_plain(void* object) noexcept { ::operator delete(object); }

template <class T>
void delete_object(void* object) noexcept {
  delete static_cast<T*>(object);
}

// How `retire(T*)` destroys. To free an object without its type, in a run, its class must have no
// operator delete and no extended alignment.
template <class T>
constexpr deleter deleter_of() {
  static_assert(requires { sizeof(T); }, "the type must be complete");
  constexpr bool is_plain = std::is_trivially_destructible_v<T> &&
                            alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ &&
                            !requires(void* block) { T::operator delete(block); } &&
                            !requires(void* block) { T::operator delete(block, sizeof(T)); };
  return is_plain ? delete_plain : delete_object<T>;
}

// Whether operator new allocates from nearmalloc.
inline bool near_is_behind_new() noexcept {
  if (&near_free_batch == nullptr || &near_malloc_usable_size == nullptr) return false;
  void* volatile block = ::operator new(sizeof(void*), std::nothrow);
  if (block == nullptr) return false;
  const bool is_ours = near_malloc_usable_size(block) > 0;
  ::operator delete(block);
  return is_ours;
}

inline FreeRun free_run(bool hand_over) noexcept {
  return {delete_plain, hand_over && near_is_behind_new() ? near_free_batch : nullptr};
}

}  // namespace near::reclaim::impl
