// What base/atomic.h uses in a model: atomics of Relacy's C++11 memory model, and plain
// memory whose races it reports. The production headers that use near::Atomic, near::Plain and the
// orders are explored as they are.
// Invariant: every operation runs at the order its caller gave, unless the mutation being tried
// (mutation.h) weakens that operation.
// Thread-safety: any thread of a model; objects live inside a test suite of Relacy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <relacy/relacy.hpp>
#include <source_location>
#include <type_traits>

// Relacy redefines these for code not written for it.
#undef assert
#undef delete
#undef errno
#undef free
#undef calloc
#undef malloc
#undef memory_order_acq_rel
#undef memory_order_acquire
#undef memory_order_consume
#undef memory_order_relaxed
#undef memory_order_release
#undef memory_order_seq_cst
#undef new
#undef pthread_mutex_t
#undef realloc

#include "mutation.h"

namespace near {

inline constexpr bool kModel = true;

inline constexpr rl::memory_order kRelaxed = rl::mo_relaxed;
inline constexpr rl::memory_order kAcquire = rl::mo_acquire;
inline constexpr rl::memory_order kRelease = rl::mo_release;
inline constexpr rl::memory_order kAcqRel = rl::mo_acq_rel;
inline constexpr rl::memory_order kSeqCst = rl::mo_seq_cst;

using Place = std::source_location;

inline rl::debug_info debug_info(const Place& place) {
  return {place.function_name(), place.file_name(), place.line()};
}

// The part of std::atomic that the protocols need. Relacy can construct its atomics only at run
// time, but production classes have constexpr constructors: so this class constructs them by hand.
template <typename T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = std::is_trivially_copyable_v<T>;

  constexpr Atomic() : Atomic(T()) {}
  constexpr Atomic(T value) {
    if (!std::is_constant_evaluated()) std::construct_at(&inner(), stored(value));
  }
  constexpr ~Atomic() {
    if (!std::is_constant_evaluated()) std::destroy_at(&inner());
  }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(rl::memory_order order, Place place = Place::current()) const {
    return inner().load(mutated(order, place), debug_info(place));
  }
  void store(T value, rl::memory_order order, Place place = Place::current()) {
    inner().store(stored(value), mutated(order, place), debug_info(place));
  }
  T exchange(T value, rl::memory_order order, Place place = Place::current()) {
    return inner().exchange(value, mutated(order, place), debug_info(place));
  }
  bool compare_exchange_weak(T& expected, T wanted, rl::memory_order order, rl::memory_order failed,
                             Place place = Place::current()) {
    return inner().compare_exchange_weak(expected, wanted, mutated(order, place), debug_info(place),
                                         mutated(failed, place), debug_info(place));
  }
  bool compare_exchange_strong(T& expected, T wanted, rl::memory_order order,
                               rl::memory_order failed, Place place = Place::current()) {
    return inner().compare_exchange_strong(expected, wanted, mutated(order, place),
                                           debug_info(place), mutated(failed, place),
                                           debug_info(place));
  }
  T fetch_add(T value, rl::memory_order order, Place place = Place::current()) {
    return inner().fetch_add(value, mutated(order, place), debug_info(place));
  }
  T fetch_or(T value, rl::memory_order order, Place place = Place::current()) {
    return inner().fetch_or(value, mutated(order, place), debug_info(place));
  }
  T fetch_sub(T value, rl::memory_order order, Place place = Place::current()) {
    return inner().fetch_sub(value, mutated(order, place), debug_info(place));
  }
  T fetch_and(T value, rl::memory_order order, Place place = Place::current()) {
    return inner().fetch_and(value, mutated(order, place), debug_info(place));
  }

  // For the model's futex: the newest value, as the kernel sees it, and the sleepers.
  T newest() const { return inner().debug_value(); }
  rl::unpark_reason sleep(bool timed, Place place = Place::current()) {
    return inner().wait(rl::ctx(), timed, true, debug_info(place));
  }
  void wake(int sleepers, Place place = Place::current()) {
    inner().wake(rl::ctx(), sleepers, debug_info(place));
  }

 private:
  // Relacy cannot print a pointer to const.
  template <typename U>
  static U* stored(const U* pointer) {
    return const_cast<U*>(pointer);
  }
  static T stored(T value)
    requires(!std::is_pointer_v<T>)
  {
    return value;
  }
  using Inner = rl::atomic<decltype(stored(T()))>;
  Inner& inner() const { return *reinterpret_cast<Inner*>(room_); }

  alignas(Inner) mutable std::byte room_[sizeof(Inner)];
};

// Memory that is not atomic: a race on it, or reading it before it was written, fails the model.
template <typename T>
class Plain {
 public:
  Plain() = default;
  Plain(T value) : var_(value) {}
  Plain(const Plain& other) : Plain(static_cast<T>(other)) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T>(other); }
  Plain& operator=(T value) {
    var_(debug_info(Place::current())).store(value);
    return *this;
  }
  operator T() const { return var_(debug_info(Place::current())).load(); }
  T operator->() const { return *this; }

 private:
  rl::var<T> var_;
};

// In place of std::atomic_ref, where a model compiles it but does not explore it.
template <typename T>
struct AtomicRef {
  explicit AtomicRef(T& word) : word_(word) {}
  T load(rl::memory_order) const { return word_; }
  void store(T value, rl::memory_order) { word_ = value; }

 private:
  T& word_;
};

}  // namespace near
