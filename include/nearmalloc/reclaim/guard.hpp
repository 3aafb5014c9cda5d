// The guard of a thread: domain::pin and handle::pin of domain.hpp make it, which includes this and
// has the rules.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/impl/deferred_call.hpp"
#include "nearmalloc/reclaim/impl/free_run.hpp"
#include "nearmalloc/reclaim/schemes.hpp"

namespace near::reclaim {

template <class Scheme>
class domain;
template <class Scheme>
class handle;

// A thread's stay inside a domain. Nestable: only the outermost guard of a thread pins and unpins.
// Thread-safety: belongs to the thread that made it.
template <class Scheme>
class [[nodiscard]] guard {
 public:
  // Every pointer read under this guard stays valid until it ends, protected or not (checkpoints:
  // or until it makes a checkpoint).
  static constexpr bool protects_all = Scheme::protects_all;
  // Objects that are retired should have the base `born`: ibr, hyaline.
  static constexpr bool has_births = impl::needs_births<Scheme>;
  // Under checkpoints: the guard may have sections, see below.
  static constexpr bool has_sections = impl::makes_sections<Scheme>;
  // Slots for protect and hold: 0 .. slots - 1. Each guard of a thread has its own, nested or side
  // by side. A slot beyond them aborts, and so does a seventeenth guard of one thread that holds
  // something while sixteen others do. Under ibr and hyaline slots are not used: what one protects
  // stays valid until the guard ends.
  static constexpr unsigned slots = impl::kGuardSlots;

  ~guard() {
    impl::check_use(record_);
    slots_.give_back(record_);
    impl::end_guard<Scheme>(record_);
  }
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  // Ends this stay and begins another: nothing read before may be used. Has no effect if nested.
  // Under qsbr, reports a quiescent state.
  void repin() noexcept {
    if (!record_.stay.has_one_guard()) return;
    slots_.clear(record_);
    impl::end_guard<Scheme>(record_);
    if constexpr (impl::HasReports<Scheme>) Scheme::report(record_);
    Scheme::enter(record_);
  }

  // The value of `source`, whose object stays valid until the slot is used again or the guard ends.
  // Does an acquire load; under slot schemes also a store, repeated until the source is unchanged.
  template <class T>
  T* protect(unsigned slot, const Atomic<T*>& source) noexcept {
    impl::check_use(record_);
    return slots_.protect(record_, slot, source);
  }

  // Puts `object` (null: nothing) into the slot. It is protected if the caller finds, afterwards,
  // that it was not unlinked yet; under ibr and hyaline, `still_holds` must be true after that,
  // else the caller begins anew. Does nothing under schemes that protect all.
  void hold(unsigned slot, const void* object) noexcept {
    impl::check_use(record_);
    slots_.hold(record_, slot, object);
  }

  // For ibr and hyaline: see `hold`.
  bool still_holds() const noexcept
    requires(has_births)
  {
    return slots_.still_holds();
  }

  // For checkpoints. Says whether the guard may make checkpoints, also in operations of structures
  // that are given it: each looks as it begins, long walks once in 64 nodes. Then the caller uses
  // no pointer that it read before such an operation, and passes it no key in such an object. At
  // first the guard may not. Returns what was said before. While a thread has several guards of a
  // handle, none of them makes checkpoints.
  bool allow_checkpoints(bool allowed = true) noexcept
    requires(has_sections)
  {
    return std::exchange(slots_.allows_checkpoints, allowed);
  }

  // For checkpoints. A walk calls this once in 64 steps or so. True: another thread waits for the
  // end of the guard's section, or will; so it has ended, and another one has begun. Of what was
  // read under the guard, only the objects `held` may be used, until the next checkpoint. First
  // find out whether each is still in its structure: if it is, it is as if it had been read just
  // now; if not, do not follow its pointers, and hold it again only at the same place in `held`.
  // False: nothing has changed, and it cost one load; so always before `allow_checkpoints`. `held`
  // are addresses that may be retired, not bases at another offset, or null. May run deleters, as a
  // pin may.
  template <class... T>
  bool checkpoint(const T*... held) noexcept
    requires(has_sections)
  {
    static_assert(sizeof...(held) <= slots);
    impl::check_use(record_);
    if (!slots_.may_begin_section(record_)) [[likely]]
      return false;
    const void* const objects[] = {held..., nullptr};
    slots_.publish(record_, {objects, sizeof...(held)});
    impl::begin_section(record_);
    return true;
  }

  // Does `delete object` when no thread can hold it any more. Requires that it was unlinked, and
  // that no other thread retires it. Allocates once in 63 calls at most; if that fails the object
  // is leaked and counted (statistics::lost). Under hyaline a look also allocates its batches.
  // Deleters run in some thread that uses the domain; they may retire, pin and protect, and must
  // not throw. Under slot schemes, ibr and hyaline one may run inside `retire`; under a limit of
  // bytes, under any scheme. `bytes` is what the object counts in that limit and in
  // statistics::unreclaimed_bytes, at most 4 GiB: pass more if it owns other memory.
  template <class T>
  void retire(T* object, size_t bytes = sizeof(T)) noexcept {
    impl::check_retired(object);
    retire_born(object, impl::birth_of(object), impl::deleter_of<T>(), bytes);
  }
  // As above, with `destroy(object)` instead of `delete`. Its size is unknown here: pass it.
  void retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    retire_born(object, 0, destroy, bytes);
  }
  // As above, with any function object, such as a lambda. One with a state is moved to a block that
  // is allocated; if that fails, the object is leaked and counted. Slots could not hold an object
  // behind such a block: under hazard_pointers, ping_epochs and checkpoints, only function objects
  // without a state are possible.
  template <class T, std::invocable<T*> D>
  void retire_with(T* object, D destroy, size_t bytes = impl::bytes_of<T>()) noexcept {
    if constexpr (impl::stateless<D>) {
      retire_born(object, impl::birth_of(object), impl::call_stateless<T, D>, bytes);
    } else {
      static_assert((protects_all && !has_sections) || has_births,
                    "a deleter with a state under hazard_pointers, ping_epochs or checkpoints");
      static_assert(std::is_nothrow_move_constructible_v<D>, "the deleter's move may throw");
      using Call = impl::DeferredCall<T, D>;
      const uint64_t birth = impl::birth_of(object);
      auto* const call = new (std::nothrow) Call(object, std::move(destroy));
      if (call == nullptr) return impl::lose(record_);
      retire_born(call, birth, Call::run, bytes + sizeof(Call));
    }
  }
  // As retire, unless the object would exceed options::max_unreclaimed_bytes and nothing can be
  // freed: then returns false; the caller still has the object, and may retire it later.
  template <class T>
  [[nodiscard]] bool try_retire(T* object, size_t bytes = sizeof(T)) noexcept {
    const impl::Promise promise(record_, bytes);
    if (promise) retire(object, bytes);
    return static_cast<bool>(promise);
  }
  // As above, with `destroy(object)` instead of `delete`. Pass its size: 0 bytes are refused only
  // while the thread is over the limit.
  [[nodiscard]] bool try_retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    const impl::Promise promise(record_, bytes);
    if (promise) retire(object, destroy, bytes);
    return static_cast<bool>(promise);
  }

  // A guard inside this one, with slots of its own: neither affects what the other protects.
  // Structures take one for each of their operations.
  guard nested() noexcept { return guard(record_); }

  // Retires every object of a chain, from `first` to null; `next_of(T*)` returns the next one.
  template <class T, std::invocable<T*> Next>
  void retire_chain(T* first, Next next_of) noexcept {
    while (first != nullptr) {
      T* next = next_of(first);
      retire(first);
      first = next;
    }
  }

 private:
  friend class handle<Scheme>;
  friend class domain<Scheme>;
  explicit guard(impl::Record& record) noexcept : record_(record) {
    impl::begin_guard<Scheme>(record_);
  }

  // `birth`: what the object noted when it was made; 0: nothing.
  void retire_born(void* object, [[maybe_unused]] uint64_t birth, deleter destroy,
                   size_t bytes) noexcept {
    impl::check_use(record_);
    bool has_room = false;
    if constexpr (has_births) {
      has_room = Scheme::retire(record_, object, destroy, bytes, birth);
    } else {
      has_room = Scheme::retire(record_, object, destroy, bytes);
    }
    if (!has_room) [[unlikely]]
      impl::lose(record_);
  }

  impl::Record& record_;
  [[no_unique_address]] typename Scheme::Slots slots_;
};

}  // namespace near::reclaim
