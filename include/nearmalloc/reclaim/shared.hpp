// Counted references in locations that many threads read and replace: std::atomic<std::shared_ptr>
// without a lock, and readers that count nothing.
//
//   using Home = domain<debra<>>;
//   Home home;
//   atomic_shared_ptr<Settings, Home> newest(home, make_shared<Settings>(80, 4));
//
//   reader   auto guard = home.pin();
//            auto now = newest.snapshot(guard);      counts nothing; until the guard ends
//            shared_ptr<Settings> mine = now.share();     counts; as long as one likes
//   writer   newest.store(make_shared<Settings>(443, 4));
//
//   type               what it is                         what it costs
//   shared_ptr         a reference of its own             a count when it is copied or ends
//   snapshot_ptr       what a guard protects              nothing
//   atomic_shared_ptr  a location with a reference        a retirement when it is replaced or ends
//
// An object is destroyed when its last reference is given up: at once if that is a shared_ptr, else
// when the retirement ends. So an object that holds an atomic_shared_ptr retires its reference in
// its destructor: a chain of n objects takes n grace periods. References in a circle are never
// given up; there are no weak ones. Objects are as large as T and 16 bytes more.
// Thread-safety: atomic_shared_ptr: any thread, except the destructor; a shared_ptr or snapshot_ptr
// is one thread's, as a std::shared_ptr is. [Anderson21]
#pragma once

#include <cstddef>
#include <utility>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/reference_count.hpp"

namespace near::reclaim {

namespace impl {

template <class T>
struct Counted : born {
  template <class... Arguments>
  explicit Counted(Arguments&&... arguments) : object(std::forward<Arguments>(arguments)...) {}

  ReferenceCount references;
  T object;
};

template <class T>
void let_go(Counted<T>* counted) noexcept {
  if (counted != nullptr && counted->references.let_go()) delete counted;
}

}  // namespace impl

template <class T, class Domain>
class atomic_shared_ptr;
template <class T>
class snapshot_ptr;

template <class T>
class shared_ptr {
 public:
  using element_type = T;

  shared_ptr() noexcept = default;
  shared_ptr(std::nullptr_t) noexcept {}  // NOLINT: implicit, as in std
  shared_ptr(const shared_ptr& other) noexcept : counted_(other.counted_) {
    if (counted_ != nullptr) counted_->references.add();
  }
  shared_ptr(shared_ptr&& other) noexcept : counted_(std::exchange(other.counted_, nullptr)) {}
  shared_ptr& operator=(shared_ptr other) noexcept {
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~shared_ptr() { impl::let_go(counted_); }

  T* get() const noexcept { return counted_ != nullptr ? &counted_->object : nullptr; }
  T& operator*() const noexcept { return counted_->object; }
  T* operator->() const noexcept { return &counted_->object; }
  explicit operator bool() const noexcept { return counted_ != nullptr; }
  // How many references there are, those included that are yet to be given up. A hint, unless it is
  // 1 and no location names the object: then this is the only one.
  size_t use_count() const noexcept {
    return counted_ != nullptr ? counted_->references.number() : 0;
  }
  friend bool operator==(const shared_ptr& a, const shared_ptr& b) noexcept = default;

 private:
  template <class U, class Domain>
  friend class atomic_shared_ptr;
  friend class snapshot_ptr<T>;
  template <class U, class... Arguments>
  friend shared_ptr<U> make_shared(Arguments&&... arguments);
  // Takes over a reference.
  explicit shared_ptr(impl::Counted<T>* counted) noexcept : counted_(counted) {}

  impl::Counted<T>* counted_ = nullptr;
};

// Throws std::bad_alloc, and what T's constructor throws.
template <class T, class... Arguments>
shared_ptr<T> make_shared(Arguments&&... arguments) {
  return shared_ptr<T>(new impl::Counted<T>(std::forward<Arguments>(arguments)...));
}

// Valid until its guard ends, or uses the slot again.
template <class T>
class snapshot_ptr {
 public:
  using element_type = T;

  T* get() const noexcept { return counted_ != nullptr ? &counted_->object : nullptr; }
  T& operator*() const noexcept { return counted_->object; }
  T* operator->() const noexcept { return &counted_->object; }
  explicit operator bool() const noexcept { return counted_ != nullptr; }

  // A reference that outlives the guard.
  shared_ptr<T> share() const noexcept {
    if (counted_ != nullptr) counted_->references.add();
    return shared_ptr<T>(counted_);
  }

 private:
  template <class U, class Domain>
  friend class atomic_shared_ptr;
  explicit snapshot_ptr(impl::Counted<T>* counted) noexcept : counted_(counted) {}

  impl::Counted<T>* counted_;
};

template <class T, class Domain>
class atomic_shared_ptr {
 public:
  using value_type = shared_ptr<T>;
  using guard_type = typename Domain::guard_type;

  // `domain` must outlive this, and the objects that hold others of this type.
  explicit atomic_shared_ptr(Domain& domain, shared_ptr<T> first = {}) noexcept
      : domain_(domain), counted_(std::exchange(first.counted_, nullptr)) {}
  // Another thread may still protect what it has read here: the reference is retired. Leaks and
  // counts it if this is the thread's first use of the domain and there is no memory.
  ~atomic_shared_ptr() {
    Counted* const last = counted_.load(kAcquire);  // pairs: program
    if (last != nullptr) domain_.retire_with(last, kLetGo);
  }
  atomic_shared_ptr(const atomic_shared_ptr&) = delete;
  atomic_shared_ptr& operator=(const atomic_shared_ptr&) = delete;

  snapshot_ptr<T> snapshot(guard_type& guard, unsigned slot = 0) const noexcept {
    return snapshot_ptr<T>(guard.protect(slot, counted_));
  }

  // A reference of the caller's own. Throws what pin throws.
  shared_ptr<T> load() const {
    guard_type guard = domain_.pin();
    return snapshot(guard).share();
  }

  // Throws what pin throws; then nothing has changed.
  void store(shared_ptr<T> next) {
    guard_type guard = domain_.pin();
    retire(guard, swap(next));
  }
  // Returns what was there before. Throws what pin throws; then nothing has changed.
  shared_ptr<T> exchange(shared_ptr<T> next) {
    guard_type guard = domain_.pin();
    Counted* const before = swap(next);
    // The location's own reference may be what a reader relies on: the caller gets another one.
    if (before != nullptr) before->references.add();
    retire(guard, before);
    return shared_ptr<T>(before);
  }

  // Puts `next` here if this names the object of `expected`; true: it did, and `next` is null now.
  bool compare_exchange(guard_type& guard, const snapshot_ptr<T>& expected,
                        shared_ptr<T>& next) noexcept {
    return replace(guard, expected.counted_, next);
  }
  bool compare_exchange(guard_type& guard, const shared_ptr<T>& expected,
                        shared_ptr<T>& next) noexcept {
    return replace(guard, expected.counted_, next);
  }

 private:
  using Counted = impl::Counted<T>;
  static constexpr auto kLetGo = [](Counted* each) noexcept { impl::let_go(each); };

  // The location takes over the reference of `next`.
  Counted* swap(shared_ptr<T>& next) noexcept {
    // pairs: program
    return counted_.exchange(std::exchange(next.counted_, nullptr), kAcqRel);
  }

  // The object of `expected` is not destroyed meanwhile, so its address cannot come back.
  bool replace(guard_type& guard, Counted* expected, shared_ptr<T>& next) noexcept {
    Counted* const before = expected;
    // pairs: program
    if (!counted_.compare_exchange_strong(expected, next.counted_, kAcqRel, kRelaxed)) return false;
    next.counted_ = nullptr;
    retire(guard, before);
    return true;
  }

  static void retire(guard_type& guard, Counted* counted) noexcept {
    if (counted != nullptr) guard.retire_with(counted, kLetGo);
  }

  Domain& domain_;
  Atomic<Counted*> counted_;
};

}  // namespace near::reclaim
