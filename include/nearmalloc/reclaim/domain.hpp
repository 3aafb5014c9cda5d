// Safe memory reclamation for concurrent data structures: objects that were unlinked are destroyed
// when no thread can hold a pointer to them any more.
//
//   near::reclaim::domain<near::reclaim::debra<>> domain;
//
//   reader   auto guard = domain.pin();              until the guard ends, what was reachable stays
//            Node* node = guard.protect(0, head);
//   writer   unlink the node, then guard.retire(node);
//
// A domain is a set of threads and objects that wait; any number of domains live side by side. The
// scheme is a type (schemes.hpp), the rest are values (options.hpp, policy.hpp). Threads come and
// go at will: a handle attaches explicitly, domain::pin does on first use and until the thread
// ends. What a thread leaves is adopted by the others, and so is what a thread retired that stays
// attached and waits: options::batch_size says when. A thread that goes on in that moment waits, in
// `pin` or `retire`, until the other has moved a few lists.
//
// Rules. Unlink before retire; retire once. Under schemes with protects_all == false use only
// pointers from `protect`, or `hold` followed by a look that the object is still reachable; what is
// protected is the very address that is retired, not that of a base at another offset. A thread
// does not end while it is pinned.
//
// Fork: in the child the forking thread goes on; other threads' guards end, their objects are
// adopted, or leaked (statistics::lost) if the fork met them inside `retire`, freeing or a barrier;
// locks of an occtree that they held stay locked. Process exit: a
// domain of static storage duration is destroyed like any object, so no thread may use it then;
// default_domain never is.
//
// Misuse that is noticed is said on stderr, and aborts:
//
//   what                                              when it is noticed
//   a domain, handle or thread ends while pinned      at once
//   a domain ends before a handle of it               at once
//   a slot, or a guard that holds, too many           at once
//   synchronize, barrier: while pinned, by a deleter  at once
//   a guard ends twice                                at once, if it is not nested
//   pin or retire inside an offline_scope             at once, except under leaky
//   a guard, or a handle that its thread did not      when an epoch or the token comes, or a batch
//   adopt, is used by another thread                  is full; NEAR_CHECK: at once
//   an object is retired twice, or is null            NEAR_CHECK: at once, if it is retired by type
//   retire before unlink; a pointer outlives its      never
//   guard; a guard of another domain
//
// NEAR_CHECK: in programs that are compiled with it defined as 1, in all of their files. A lookup
// in a table with a lock is then part of each retirement.
//
// Signals: handler_guard.hpp says what a handler may call.
//
// Source: [Brown15], [Kim23], [Michael04]; names after the C++26 papers P2545 and P2530.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/handler_guard.hpp"
#include "nearmalloc/reclaim/impl/free_run.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "nearmalloc/reclaim/options.hpp"
#include "nearmalloc/reclaim/schemes.hpp"

namespace near::reclaim {

template <class Scheme>
class domain;
template <class Scheme>
class handle;
template <class Scheme>
class offline_scope;

// A thread's stay inside a domain. Nestable: only the outermost guard of a thread pins and unpins.
// Thread-safety: belongs to the thread that made it.
template <class Scheme>
class [[nodiscard]] guard {
 public:
  // Every pointer read under this guard stays valid until it ends, protected or not.
  static constexpr bool protects_all = Scheme::protects_all;
  // Slots for protect and hold: 0 .. slots - 1. They are this guard's own, whatever other guards
  // the thread has, nested or side by side. A slot beyond aborts, and so does a seventeenth guard
  // of one thread that holds something while sixteen others do.
  static constexpr unsigned slots = impl::kGuardSlots;

  ~guard() {
    impl::check_use(record_);
    slots_.give_back(record_);
    if (record_.stay.has_one_guard()) [[likely]] {
      leave();
    } else {
      impl::leave_nested(record_);
    }
  }
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;

  // Ends this stay and begins another: nothing read before may be used. No effect if nested.
  void repin() noexcept {
    if (!record_.stay.has_one_guard()) return;
    slots_.clear(record_);
    leave();
    Scheme::enter(record_);
  }

  // The value of `source`, whose object stays valid until the slot is used again or the guard ends.
  // An acquire load; under slot schemes also a store, repeated until the source stands still.
  template <class T>
  T* protect(unsigned slot, const Atomic<T*>& source) noexcept {
    impl::check_use(record_);
    return slots_.protect(record_, slot, source);
  }

  // Puts `object` (null: nothing) into the slot. It is protected if the caller finds, afterwards,
  // that it was not unlinked yet. Nothing happens under schemes that protect all.
  void hold(unsigned slot, const void* object) noexcept {
    impl::check_use(record_);
    slots_.hold(record_, slot, object);
  }

  // `delete object` when nobody can hold it any more. It was unlinked, and nobody else retires it.
  // noexcept; allocates once in 63 calls at most; if that is refused the object is leaked and
  // counted (statistics::lost). Deleters run in some thread that uses the domain, may retire, pin
  // and protect, and must not throw. Under slot schemes one may run inside `retire`.
  template <class T>
  void retire(T* object) noexcept {
    static_assert(sizeof(T) > 0, "the type must be complete");
    // A class's own operator delete, or alignment beyond new's, needs the type.
    constexpr bool is_plain = std::is_trivially_destructible_v<T> &&
                              alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ &&
                              !requires(void* block) { T::operator delete(block); } &&
                              !requires(void* block) { T::operator delete(block, sizeof(T)); };
    impl::check_retired(object);
    retire(object, is_plain ? impl::delete_plain : impl::delete_object<T>);
  }
  // `destroy(object)` instead.
  void retire(void* object, deleter destroy) noexcept {
    impl::check_use(record_);
    Scheme::retire(record_, object, destroy);
  }

  // A guard inside this one, with slots of its own: what is protected by either stays so whatever
  // is done with the other. Structures take one for each of their operations.
  guard nested() noexcept { return guard(record_); }

  // Every object of a chain, from `first` to null; `next_of(T*)` gives the one after.
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
    impl::check_use(record_);
    if (record_.stay.is_outside()) [[likely]] {
      Scheme::enter(record_);
    } else {
      Scheme::nest(record_);
    }
  }

  void leave() noexcept {
    record_.stay.end();
    Scheme::leave(record_);
  }

  impl::Record& record_;
  [[no_unique_address]] typename Scheme::Slots slots_;
};

// A thread's membership, for those who want to save the look-up of domain::pin. Move-only; detaches
// when it ends. Thread-safety: one thread at a time; no guard may be open when it goes to another,
// which calls `adopt` first.
template <class Scheme>
class [[nodiscard]] handle {
 public:
  using guard_type = guard<Scheme>;

  handle(handle&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  handle& operator=(handle&& other) noexcept {
    if (this != &other) {
      leave();
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  ~handle() { leave(); }

  guard_type pin() noexcept { return guard_type(*record_); }

  // In a signal handler of the thread whose handle it is.
  handler_guard<Scheme> pin_in_handler() noexcept { return handler_guard<Scheme>(*record_); }

  // The handle is the calling thread's from now on: fork and stall reports go by that.
  void adopt() noexcept {
    record_->thread.store(impl::own_thread(), kRelaxed);  // relaxed: read by fork and reports
    record_->user = impl::this_user();
  }

  template <class T>
  void retire(T* object) noexcept {
    pin().retire(object);
  }
  void retire(void* object, deleter destroy) noexcept { pin().retire(object, destroy); }
  template <class T, std::invocable<T*> Next>
  void retire_chain(T* first, Next next_of) noexcept {
    pin().retire_chain(first, next_of);
  }

  // Frees up to `most` objects of this thread that are safe; how many. For policy::manual.
  size_t reclaim(size_t most = SIZE_MAX) noexcept { return impl::free_by_hand(*record_, most); }

  // Objects of this thread that are safe and wait to be freed.
  size_t waiting() const noexcept { return record_->limbo.waiting(); }

 private:
  friend class domain<Scheme>;
  friend class offline_scope<Scheme>;
  explicit handle(impl::Record& record) noexcept : record_(&record) {}
  void leave() noexcept {
    if (record_ != nullptr) record_->core->detach(*record_);
  }

  impl::Record* record_;
};

// Thread-safety: all members may be called by any thread at any time, but for the destructor.
template <class Scheme>
class domain {
 public:
  using scheme_type = Scheme;
  using guard_type = guard<Scheme>;
  using handle_type = handle<Scheme>;

  // Options out of range abort. The first domain of a process registers it with membarrier(2).
  explicit domain(const options& settings = {})
      : core_(settings, Scheme::traits, impl::free_run(settings.hand_over_runs)) {}

  // Destroys every object that waits. No guard or handle is left; threads that used `pin` may live.
  ~domain() = default;
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  // Throws std::bad_alloc: no memory, or 2^24 threads and handles at a time.
  handle_type attach() {
    impl::Record* record = core_.attach();
    if (record == nullptr) throw std::bad_alloc();
    return handle_type(*record);
  }

  // A guard of the calling thread. Throws std::bad_alloc, at a thread's first use only.
  guard_type pin() {
    impl::Record* record = mine();
    if (record == nullptr) throw std::bad_alloc();
    return guard_type(*record);
  }

  // In a signal handler. Its thread has used `pin` or `retire` of this domain before; else: aborts.
  handler_guard<Scheme> pin_in_handler() noexcept {
    return handler_guard<Scheme>(core_.in_handler());
  }

  // As guard::retire, for callers that are not pinned. Leaks and counts the object if this is the
  // thread's first use and there is no memory.
  template <class T>
  void retire(T* object) noexcept {
    if (impl::Record* record = mine()) return guard_type(*record).retire(object);
    core_.lose();
  }
  void retire(void* object, deleter destroy) noexcept {
    if (impl::Record* record = mine()) return guard_type(*record).retire(object, destroy);
    core_.lose();
  }

  // Waits until every guard that is open now has ended. Objects retired before are safe then, yet
  // may wait to be freed. Not while pinned, not from a deleter: aborts.
  void synchronize() noexcept
    requires(Scheme::has_grace_periods)
  {
    core_.synchronize();
  }

  // Waits until every object retired before is destroyed, by whomever, and destroys what is left.
  // As `pin`, it attaches the thread until that ends; synchronize does, too.
  // Not while pinned, not from a deleter: aborts. Does nothing under `leaky`.
  void barrier() noexcept { core_.barrier(); }

  // As handle::reclaim and waiting, for what this thread retired without a handle.
  size_t reclaim(size_t most = SIZE_MAX) noexcept {
    impl::Record* record = mine();
    return record != nullptr ? impl::free_by_hand(*record, most) : 0;
  }
  size_t waiting() noexcept {
    impl::Record* record = mine();
    return record != nullptr ? record->limbo.waiting() : 0;
  }

  statistics collect() const noexcept { return core_.collect(); }

  // Whether pins cost no fence here: the option was not refused, and the kernel had membarrier(2)
  // when the domain was made. If a filter (seccomp) refuses it from then on, pins still cost none,
  // and what took a membarrier waits for a millisecond; domains made later have fences.
  bool is_asymmetric() const noexcept { return core_.asymmetric; }

 private:
  friend class offline_scope<Scheme>;
  friend struct impl::TestAccess;

  impl::Record* mine() noexcept {
    const impl::Recent& recent = impl::recents[core_.serial % impl::kRecents];
    if (recent.serial == core_.serial) [[likely]]
      return recent.record;
    return core_.of_this_thread();
  }

  impl::Core core_;
};

// A domain that every part of a program may share, and that is never destroyed.
template <class Scheme>
domain<Scheme>& default_domain() {
  static domain<Scheme>& shared = *new domain<Scheme>();
  return shared;
}

// Tells the domain that a thread will not use it for a while, as before blocking: nobody waits for
// it, and what it retired goes to the others. The thread is not pinned, and does not use the handle
// (or, with a domain, its members pin and retire) until the scope ends.
template <class Scheme>
class [[nodiscard]] offline_scope {
 public:
  explicit offline_scope(handle<Scheme>& handle) noexcept : record_(handle.record_) { begin(); }
  explicit offline_scope(domain<Scheme>& domain) noexcept : record_(domain.mine()) { begin(); }
  ~offline_scope() {
    if (record_ != nullptr) record_->core->come_online(*record_);
  }
  offline_scope(const offline_scope&) = delete;
  offline_scope& operator=(const offline_scope&) = delete;

 private:
  void begin() noexcept {
    if (record_ != nullptr) record_->core->go_offline(*record_);
  }

  impl::Record* record_;
};

}  // namespace near::reclaim
