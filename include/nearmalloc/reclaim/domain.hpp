// Safe memory reclamation for concurrent data structures: objects that were unlinked are destroyed
// when no thread can hold a pointer to them any more.
//
//   near::reclaim::domain<near::reclaim::debra<>> domain;
//
//   reader   auto guard = domain.pin();              until the guard ends, what was reachable stays
//            Node* node = guard.protect(0, head);
//   writer   unlink the node, then guard.retire(node);
//
// A domain is a set of threads and of objects that wait; a process may have any number of domains.
// The scheme is a type (schemes.hpp), the rest are values (options.hpp, policy.hpp). Threads may
// attach and leave at any time: a handle attaches explicitly; domain::pin attaches at first use,
// until the thread ends. Other threads adopt what a thread leaves behind, and what a thread retired
// that stays attached but idle: options::batch_size says when. If that thread resumes at that
// moment, it waits, in `pin` or `retire` (hyaline: or when a guard ends), until the other has moved
// a few lists.
//
// Rules. Unlink before retire; retire once. Under schemes with protects_all == false use only
// pointers from `protect`, or from `hold` if the object was still reachable afterwards; protect the
// very address that is retired, not that of a base at another offset. Under checkpoints use nothing
// that was read before guard::checkpoint returned true, except what it holds. A thread must not end
// while it is pinned.
//
// Fork: in the child the forking thread continues. The guards of other threads end; their objects
// are adopted. Objects are leaked (statistics::lost) if, at the fork, their thread was in `retire`
// or freeing, or another thread was in a barrier or was adopting them from an idle thread; under
// hyaline also if a thread was just ending its guard, or taking over, that had a part in them.
// Locks of an occtree that other threads held stay locked. Process exit: a domain of static storage
// duration is destroyed like any object, so no thread may use it then; default_domain never is.
//
// Misuse that is noticed is reported on stderr, and aborts:
//
//   what                                              when it is noticed
//   a domain, handle or thread ends while pinned      at once
//   a domain ends before a handle of it               at once
//   a handle ends inside its offline_scope            at once
//   a slot, or a guard that holds, too many           at once
//   synchronize, barrier: while pinned, by a deleter  at once
//   quiescent: while pinned                           at once
//   a guard ends twice                                at once, if it is not nested
//   a domain is used inside its offline_scope         at once; pin, retire: not under leaky
//   a guard, or a handle that its thread did not      in reclaim; when an epoch or the token comes,
//   adopt, is used by another thread                  or a batch is full; NEAR_CHECK: at once
//   an object is retired twice, or is null            NEAR_CHECK: at once, by retire(T*)
//   retire before unlink; a pointer outlives its      never
//   guard; a guard of another domain
//
// NEAR_CHECK: noticed if all files of the program are compiled with it defined as 1. Then each
// retirement looks the object up in a table, under a lock.
//
// Signals: handler_guard.hpp says what a handler may call.
// Source: [Brown15], [Kim23], [Kim24], [Michael04], [Wen18], [Nikolaev21]; names after the C++26
// papers P2545 and P2530.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <utility>

#include "nearmalloc/reclaim/guard.hpp"
#include "nearmalloc/reclaim/handler_guard.hpp"
#include "nearmalloc/reclaim/impl/free_run.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "nearmalloc/reclaim/options.hpp"
#include "nearmalloc/reclaim/schemes.hpp"

namespace near::reclaim {

template <class Scheme>
class offline_scope;

// A thread's membership; it saves the look-up of domain::pin. Move-only; detaches when it ends.
// Thread-safety: one thread at a time; no guard may be open when the handle moves to another
// thread, which must call `adopt` first.
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

  // Called in a signal handler of the thread that owns the handle.
  handler_guard<Scheme> pin_in_handler() noexcept { return handler_guard<Scheme>(*record_); }

  // From now on the handle belongs to the calling thread. Until then, the thread that gave it away
  // speaks for it: its `synchronize` or `barrier` is a report through this handle, too.
  void adopt() noexcept { impl::adopt(*record_); }

  template <class T>
  void retire(T* object, size_t bytes = sizeof(T)) noexcept {
    pin().retire(object, bytes);
  }
  void retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    pin().retire(object, destroy, bytes);
  }
  template <class T, std::invocable<T*> D>
  void retire_with(T* object, D destroy, size_t bytes = impl::bytes_of<T>()) noexcept {
    pin().retire_with(object, std::move(destroy), bytes);
  }
  template <class T>
  [[nodiscard]] bool try_retire(T* object, size_t bytes = sizeof(T)) noexcept {
    return pin().try_retire(object, bytes);
  }
  [[nodiscard]] bool try_retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    return pin().try_retire(object, destroy, bytes);
  }
  template <class T, std::invocable<T*> Next>
  void retire_chain(T* first, Next next_of) noexcept {
    pin().retire_chain(first, next_of);
  }

  // For qsbr: says that the thread holds no pointer that it read through this handle, and frees as
  // the policy says. Aborts while pinned; has no effect in a deleter.
  void quiescent() noexcept
    requires(impl::HasReports<Scheme>)
  {
    Scheme::report(*record_);
  }

  // Frees up to `most` safe objects of this thread; returns how many. For policy::manual.
  size_t reclaim(size_t most = SIZE_MAX) noexcept { return impl::free_by_hand(*record_, most); }

  // Objects of this thread that are safe and wait to be freed.
  size_t waiting() const noexcept {
    impl::check_use(*record_);
    return record_->limbo.waiting();
  }

 private:
  friend class domain<Scheme>;
  friend class offline_scope<Scheme>;
  explicit handle(impl::Record& record) noexcept : record_(&record) {}
  void leave() noexcept {
    if (record_ != nullptr) record_->core->detach(*record_);
  }

  impl::Record* record_;
};

// Thread-safety: any thread may call any member at any time, except the destructor.
template <class Scheme>
class domain {
 public:
  using scheme_type = Scheme;
  using guard_type = guard<Scheme>;
  using handle_type = handle<Scheme>;

  // Aborts if an option is out of range. The first domain of a process registers the process with
  // membarrier(2).
  explicit domain(const options& settings = {})
      : core_(settings, Scheme::traits, impl::free_run(settings.hand_over_runs)) {}

  // Destroys every object that waits. Requires that no guard or handle is left; threads that used
  // `pin` may still live.
  ~domain() = default;
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  // Throws std::bad_alloc if there is no memory, or 2^24 threads and handles exist at a time.
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

  // Called in a signal handler. Aborts unless its thread has used `pin` or `retire` of this domain
  // before.
  handler_guard<Scheme> pin_in_handler() noexcept {
    return handler_guard<Scheme>(core_.in_handler());
  }

  // As guard::retire, for callers that are not pinned. Leaks and counts the object if this is the
  // thread's first use and there is no memory.
  template <class T>
  void retire(T* object, size_t bytes = sizeof(T)) noexcept {
    if (impl::Record* record = mine()) return guard_type(*record).retire(object, bytes);
    core_.lose();
  }
  void retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    if (impl::Record* record = mine()) return guard_type(*record).retire(object, destroy, bytes);
    core_.lose();
  }
  // As guard::retire_with.
  template <class T, std::invocable<T*> D>
  void retire_with(T* object, D destroy, size_t bytes = impl::bytes_of<T>()) noexcept {
    impl::Record* record = mine();
    if (record == nullptr) return core_.lose();
    guard_type(*record).retire_with(object, std::move(destroy), bytes);
  }
  // As guard::try_retire. False also if this is the thread's first use and there is no memory.
  template <class T>
  [[nodiscard]] bool try_retire(T* object, size_t bytes = sizeof(T)) noexcept {
    impl::Record* record = mine();
    return record != nullptr && guard_type(*record).try_retire(object, bytes);
  }
  [[nodiscard]] bool try_retire(void* object, deleter destroy, size_t bytes = 0) noexcept {
    impl::Record* record = mine();
    return record != nullptr && guard_type(*record).try_retire(object, destroy, bytes);
  }

  // Waits until every guard that is open now has ended. Objects retired before are then safe, but
  // may still wait to be freed. Aborts while pinned, and in a deleter. Under qsbr, waits until all
  // attached threads have reported; it is itself a report, through all handles of this thread.
  void synchronize() noexcept
    requires(Scheme::has_grace_periods)
  {
    core_.synchronize();
  }

  // Waits until every object retired before is destroyed; the caller destroys what others have not.
  // As `pin` and synchronize, it attaches the thread until the thread ends; under qsbr until it has
  // waited, and it is a report. Aborts while pinned, and in a deleter. No effect under `leaky`.
  void barrier() noexcept { core_.barrier(); }

  // As handle::quiescent, for what this thread did without a handle. If that is nothing: no effect.
  void quiescent() noexcept
    requires(impl::HasReports<Scheme>)
  {
    if (impl::Record* record = mine_if_any()) Scheme::report(*record);
  }

  // As handle::reclaim and handle::waiting, for what this thread retired without a handle.
  size_t reclaim(size_t most = SIZE_MAX) noexcept {
    impl::Record* record = mine_if_any();
    return record != nullptr ? impl::free_by_hand(*record, most) : 0;
  }
  size_t waiting() noexcept {
    const impl::Record* record = mine_if_any();
    return record != nullptr ? record->limbo.waiting() : 0;
  }

  // Frees what is safe of what all threads retired, whatever the policy, and brings the rest nearer
  // to its end; returns how many objects it freed. For a thread that frees for the others: call it
  // again and again (background.hpp makes such a thread). It attaches the thread, and aborts, as
  // barrier does, but waits for no reader; under qsbr it is a report.
  size_t reclaim_all() noexcept { return core_.reclaim_all_once(impl::visit<Scheme>); }

  statistics collect() const noexcept { return core_.collect(); }

  // Whether pins of this domain need no fence: options::asymmetric applied, and the kernel had
  // membarrier(2) when the domain was made. If a filter (seccomp) refuses it later, pins still need
  // none; each heavy fence then waits for a millisecond. Domains made after that have fences.
  bool is_asymmetric() const noexcept { return core_.asymmetric; }

 private:
  friend class offline_scope<Scheme>;
  friend struct impl::Unguarded;
  friend struct impl::TestAccess;

  impl::Record* mine() noexcept { return impl::own_record(core_); }
  impl::Record* mine_if_any() const noexcept { return impl::own_record_if_any(core_); }

  impl::Core core_;
};

// A domain that every part of a program may share, and that is never destroyed.
template <class Scheme>
domain<Scheme>& default_domain() {
  static domain<Scheme>& shared = *new domain<Scheme>();
  return shared;
}

// Tells the domain that a thread will not use it for a while, for example before it blocks: no
// thread waits for it, and other threads take over what it retired. The thread must not be pinned,
// and must not use the handle (or, with a domain, any of its members) until the scope ends.
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
