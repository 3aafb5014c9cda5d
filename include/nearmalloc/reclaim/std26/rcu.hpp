// Read-copy update as C++26 has it in <rcu> (clause saferecl.rcu; P2545).
//
//   #include <mutex>
//   #include <nearmalloc/reclaim/std26/rcu.hpp>
//   namespace safe = near::reclaim::std26;   // later: namespace safe = std;
//
//   struct Settings : safe::rcu_obj_base<Settings> { int port = 80; };
//   std::atomic<Settings*> settings;
//
//   int port() {                              // in any number of threads
//     std::scoped_lock reading(safe::rcu_default_domain());
//     return settings.load()->port;           // valid until `reading` ends
//   }
//   void change(Settings* next) {
//     if (Settings* old = settings.exchange(next)) old->retire();
//   }
//
// The domain is one of DEBRA's epochs that never ends. Deleters run in `unlock`, `retire`,
// `rcu_retire` and `rcu_barrier`, never in `lock`, and outside every region of the domain.
// std26.hpp says what the draft leaves open.
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/impl/deferred_call.hpp"
#include "nearmalloc/reclaim/impl/std26_object.hpp"

namespace near::reclaim::std26 {

template <class T, class D>
class rcu_obj_base;
class rcu_domain;

// The same domain at each call, also in libraries that hide their names. It never ends, so
// destructors of static objects may use it.
[[gnu::visibility("default")]] rcu_domain& rcu_default_domain() noexcept;

// As rcu_obj_base::retire, for any object: calls d(p). Allocates unless D is empty and trivial.
// Throws std::bad_alloc, or what the move of `d` throws; then `p` is not retired.
template <class T, class D = std::default_delete<T>>
void rcu_retire(T* p, D d = D(), rcu_domain& dom = rcu_default_domain());

}  // namespace near::reclaim::std26

namespace near::reclaim::impl {

// DEBRA that works when a region ends. A program may hold a lock while it calls `lock` that one of
// its deleters takes: the draft forbids that for `unlock` only.
struct RcuEpochs : ProtectsAll {
  static constexpr Traits traits{
      .scheme = Scheme::epochs, .frees_quiescent = true, .deleters_may_wait = true};
  static constexpr bool has_grace_periods = true;

  static void enter(Record& record) noexcept { pin_epoch<true>(record); }
  static void leave(Record& record) noexcept {
    unannounce(record.epoch);
    if (record.due && !record.working) [[unlikely]]
      epochs_before_pin(record);  // before the next one
  }
  static bool retire(Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return push(record, object, destroy, bytes);
  }
};

}  // namespace near::reclaim::impl

namespace near::reclaim::std26 {

// Meets Cpp17Lockable. A region of protection begins with `lock` and ends with the `unlock` of the
// same thread that corresponds to it; regions nest.
class rcu_domain {
 public:
  rcu_domain(const rcu_domain&) = delete;
  rcu_domain& operator=(const rcu_domain&) = delete;

  // Aborts if this is the thread's first use of the domain and there is no memory.
  void lock() noexcept {
    impl::Record* record = impl::Unguarded::record(domain_);
    if (record == nullptr) [[unlikely]]
      impl::fail_with("there is no memory for a thread's first rcu_domain::lock");
    impl::begin_guard<impl::RcuEpochs>(*record);
  }
  bool try_lock() noexcept {
    lock();
    return true;
  }
  // May call deleters. Aborts if the thread is not in a region.
  void unlock() noexcept {
    impl::Record* record = impl::Unguarded::record(domain_);
    if (record == nullptr || record->stay.guards() == 0) [[unlikely]]
      impl::fail_with("rcu_domain::unlock by a thread that is in no region");
    impl::end_guard<impl::RcuEpochs>(*record);
  }

 private:
  friend rcu_domain& rcu_default_domain() noexcept;
  friend void rcu_synchronize(rcu_domain& dom) noexcept;
  friend void rcu_barrier(rcu_domain& dom) noexcept;
  template <class T, class D>
  friend class rcu_obj_base;
  template <class T, class D>
  friend void rcu_retire(T* p, D d, rcu_domain& dom);
  rcu_domain() = default;

  domain<impl::RcuEpochs> domain_;
};

inline rcu_domain& rcu_default_domain() noexcept {
  alignas(rcu_domain) static unsigned char room[sizeof(rcu_domain)];
  static rcu_domain& shared = *new (room) rcu_domain();
  return shared;
}

// Waits until every region that is open now has ended. Deleters may call it. Aborts inside a
// region, where it could only wait for ever.
inline void rcu_synchronize(rcu_domain& dom = rcu_default_domain()) noexcept {
  dom.domain_.synchronize();
}

// Waits until the deleters of all objects retired before have returned; calls those that no thread
// has called. Aborts inside a region and in a deleter.
inline void rcu_barrier(rcu_domain& dom = rcu_default_domain()) noexcept { dom.domain_.barrier(); }

// The base of objects that are retired without allocating: `struct Node : rcu_obj_base<Node>`.
// Takes two words and the deleter. T may be incomplete until a member is used.
template <class T, class D = std::default_delete<T>>
class rcu_obj_base : impl::Std26Object<std26::rcu_obj_base, T, D> {
  using Object = impl::Std26Object<std26::rcu_obj_base, T, D>;
  friend Object;

 public:
  // Calls d(object) when every region that may have seen the object has ended. Requires that it was
  // unlinked, and was not retired before (noticed under NEAR_CHECK). Never loses the object: if
  // there is no memory to note it, it is noted later. May call deleters of other objects.
  void retire(D d = D(), rcu_domain& dom = rcu_default_domain()) noexcept {
    static_assert(impl::protectable<T, std26::rcu_obj_base>,
                  "T must derive from one rcu_obj_base<T, D>, publicly, not virtually");
    this->retire_in(dom.domain_, std::move(d));
  }

 protected:
  rcu_obj_base() = default;
  rcu_obj_base(const rcu_obj_base&) = default;
  rcu_obj_base(rcu_obj_base&&) = default;
  rcu_obj_base& operator=(const rcu_obj_base&) = default;
  rcu_obj_base& operator=(rcu_obj_base&&) = default;
  ~rcu_obj_base() = default;
};

template <class T, class D>
void rcu_retire(T* p, D d, rcu_domain& dom) {
  static_assert(std::is_move_constructible_v<D>, "D must be move-constructible");
  static_assert(requires { d(p); }, "d(p) must be well-formed");
  if constexpr (impl::stateless<D>) {
    void* const object = const_cast<void*>(static_cast<const volatile void*>(p));
    constexpr size_t kBytes = impl::bytes_of<T>();
    if (!impl::try_retire(dom.domain_, object, impl::call_stateless<T, D>, kBytes)) {
      throw std::bad_alloc();
    }
  } else {
    auto* const call = new impl::DeferredCall<T, D>(p, std::move(d));
    impl::retire_with_words(dom.domain_, *call, impl::DeferredCall<T, D>::kType);
  }
}

}  // namespace near::reclaim::std26
