// A value that is read as a whole by many threads, and replaced as a whole: read-copy-update.
//
//   struct Settings { int port; int threads; };
//   domain<debra<>> home;
//   versioned<Settings, domain<debra<>>> settings(home, Settings{80, 4});
//
//   reader   auto guard = home.pin();
//            const Settings& now = settings.read(guard);     stays as it is until the guard ends
//   writer   settings.update([](Settings& next) { next.threads = 8; });
//
// How it works. An atomic pointer names the newest version. An update copies it, changes the copy,
// and puts it in the place of the version that it copied, by compare-and-swap; if another update
// came first, it begins anew. The old version is retired.
// Invariant: every version but the newest was retired once, by the thread that replaced it. The
// version that an update copies is protected, so its address cannot come back meanwhile.
// Thread-safety: any thread; the destructor: one thread while no other is inside.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/section.hpp"

namespace near::reclaim {

template <class T, class Domain>
class versioned {
 public:
  using value_type = T;
  using guard_type = typename Domain::guard_type;

  // Throws std::bad_alloc, and what T's constructor throws.
  template <class... Arguments>
    requires std::constructible_from<T, Arguments...>
  explicit versioned(Domain& domain, Arguments&&... arguments)
      : domain_(domain), newest_(new T(std::forward<Arguments>(arguments)...)) {}
  ~versioned() { delete newest_.load(kAcquire); }  // pairs: program
  versioned(const versioned&) = delete;
  versioned& operator=(const versioned&) = delete;

  // The newest version. Valid, and unchanged, until the guard ends or uses the slot again.
  const T& read(guard_type& guard, unsigned slot = 0) const noexcept {
    return *guard.protect(slot, newest_);
  }

  // A copy of the newest version. Throws what pin and T's copy constructor throw.
  T get() const {
    guard_type guard = domain_.pin();
    return read(guard);
  }

  // Calls change(T&) with a copy of the newest version, which then is the newest; repeats that with
  // a new copy if another thread was faster. Throws std::bad_alloc, and what `change` and T's
  // copy throw; then nothing has changed.
  template <std::invocable<T&> Change>
  void update(Change change) {
    guard_type guard = domain_.pin();
    update(guard, change);
  }
  // The same, under a guard of the caller, which `change` may use.
  template <std::invocable<T&> Change>
  void update(guard_type& guard, Change change) {
    auto&& own = impl::own_slots(guard);
    const impl::OneSection section(own);  // `change` may use the guard, and `old` has to stay
    for (;;) {
      T* old = own.protect(0, newest_);
      auto next = std::make_unique<T>(*old);
      change(*next);
      // pairs: program
      if (newest_.compare_exchange_strong(old, next.get(), kAcqRel, kRelaxed)) {
        (void)next.release();
        own.retire(old);
        return;
      }
    }
  }

  // Puts `next`, which is not null, in the place of the newest version.
  void replace(std::unique_ptr<T> next) {
    guard_type guard = domain_.pin();
    guard.retire(newest_.exchange(next.release(), kAcqRel));  // pairs: program
  }

 private:
  Domain& domain_;
  Atomic<T*> newest_;
};

}  // namespace near::reclaim
