// The guard of a signal handler. Made by handle::pin_in_handler and domain::pin_in_handler of
// domain.hpp, which includes this.
//
//   #include <nearmalloc/reclaim/domain.hpp>
//
//   near::reclaim::domain<near::reclaim::debra<>> home;   // each thread has used it before
//   std::atomic<int*> newest;
//
//   void on_signal(int) {
//     auto guard = home.pin_in_handler();
//     const int* number = guard.protect(0, newest);       // valid until the guard ends
//     if (number != nullptr && *number == 0) std::abort();
//   }
//
// The signal may interrupt the thread anywhere, in a pin, an unpin, a retirement or malloc: what a
// guard of the interrupted thread protects stays protected, and so does what the handler protects.
// The guard does not allocate, free or lock; it keeps errno. The handler's guards must end before
// it returns: it must not leave by longjmp or an exception.
//
// A handler may call the two members that make this guard, the members of the guard, and
// collect(). All else may free, allocate or lock. The library aborts if it notices such a call: a
// retirement that interrupts a pin, a retirement or the freeing of objects; synchronize and barrier
// that interrupt a pin; a guard of any kind while the thread is offline. An ordinary guard made by
// a handler does not end another guard either, but one that is not nested runs deleters.
#pragma once

#include "nearmalloc/reclaim/impl/core.hpp"

namespace near::reclaim {

template <class Scheme>
class domain;
template <class Scheme>
class handle;

// Thread-safety: belongs to the handler that made it.
template <class Scheme>
class [[nodiscard]] handler_guard {
 public:
  static constexpr bool protects_all = Scheme::protects_all;  // as in guard
  static constexpr unsigned slots = impl::kGuardSlots;        // as in guard

  ~handler_guard() {
    slots_.give_back(record_);
    impl::leave_in_handler(record_, was_outside_);
  }
  handler_guard(const handler_guard&) = delete;
  handler_guard& operator=(const handler_guard&) = delete;

  // As guard::protect.
  template <class T>
  T* protect(unsigned slot, const Atomic<T*>& source) noexcept {
    return slots_.protect(record_, slot, source);
  }

  // As guard::hold.
  void hold(unsigned slot, const void* object) noexcept { slots_.hold(record_, slot, object); }

 private:
  friend class handle<Scheme>;
  friend class domain<Scheme>;
  explicit handler_guard(impl::Record& record) noexcept
      : record_(record), was_outside_(impl::enter_in_handler(record)) {}

  impl::Record& record_;
  [[no_unique_address]] typename Scheme::Slots slots_;
  const bool was_outside_;
};

}  // namespace near::reclaim
