// Hazard pointers as C++26 has them in <hazard_pointer> (clause saferecl.hp; P2530).
//
//   #include <cstdio>
//   #include <nearmalloc/reclaim/std26/hazard_pointer.hpp>
//   namespace safe = near::reclaim::std26;   // later: namespace safe = std;
//
//   struct Name : safe::hazard_pointer_obj_base<Name> { char text[80]; };
//   std::atomic<Name*> name;
//
//   void print() {                            // in any number of threads
//     safe::hazard_pointer hold = safe::make_hazard_pointer();
//     Name* current = hold.protect(name);     // valid until `hold` ends or protects another
//     if (current != nullptr) std::puts(current->text);
//   }
//   void change(Name* next) {
//     if (Name* old = name.exchange(next)) old->retire();
//   }
//
// All hazard pointers and all retired objects of a process are in one domain with the scheme
// hazard_pointers, which never ends. std26.hpp says what the draft leaves open.
// Thread-safety: a hazard_pointer is used by one thread at a time, and may move to another; the
// objects and non-member functions may be used by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "nearmalloc/reclaim/impl/std26_object.hpp"

namespace near::reclaim::std26 {

template <class T, class D>
class hazard_pointer_obj_base;

}  // namespace near::reclaim::std26

namespace near::reclaim::impl {

// One object in a process, also if its libraries hide their names. It never ends, so that
// destructors of static objects may use it.
[[gnu::visibility("default")]] inline domain<hazard_pointers>& std26_hazards() noexcept {
  using Domain = domain<hazard_pointers>;
  alignas(Domain) static unsigned char room[sizeof(Domain)];
  static Domain& hazards = *new (room) Domain();
  return hazards;
}

}  // namespace near::reclaim::impl

namespace near::reclaim::std26 {

// The base of objects that hazard pointers protect: `struct Node : hazard_pointer_obj_base<Node>`.
// Takes two words and the deleter. T may be incomplete until a member is used.
template <class T, class D = std::default_delete<T>>
class hazard_pointer_obj_base : impl::Std26Object<std26::hazard_pointer_obj_base, T, D> {
  using Object = impl::Std26Object<std26::hazard_pointer_obj_base, T, D>;
  friend Object;

 public:
  // Calls d(object) when no hazard pointer protects the object any more. Requires that it was
  // unlinked, and was not retired before (noticed under NEAR_CHECK). Never loses the object: if
  // there is no memory to note it, it is noted later. May call deleters of other objects.
  void retire(D d = D()) noexcept {
    static_assert(impl::protectable<T, std26::hazard_pointer_obj_base>,
                  "T must derive from one hazard_pointer_obj_base<T, D>, publicly, not virtually");
    this->retire_in(impl::std26_hazards(), std::move(d));
  }

 protected:
  hazard_pointer_obj_base() = default;
  hazard_pointer_obj_base(const hazard_pointer_obj_base&) = default;
  hazard_pointer_obj_base(hazard_pointer_obj_base&&) = default;
  hazard_pointer_obj_base& operator=(const hazard_pointer_obj_base&) = default;
  hazard_pointer_obj_base& operator=(hazard_pointer_obj_base&&) = default;
  ~hazard_pointer_obj_base() = default;
};

// Owns a hazard pointer, or is empty. Any number may exist; each takes 64 bytes, which are kept for
// the next one. Using an empty one for protection is reported, and aborts.
class hazard_pointer {
 public:
  hazard_pointer() noexcept = default;
  hazard_pointer(hazard_pointer&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  hazard_pointer& operator=(hazard_pointer&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    slot_ = std::exchange(other.slot_, nullptr);
    return *this;
  }
  ~hazard_pointer() { give_back(); }

  [[nodiscard]] bool empty() const noexcept { return slot_ == nullptr; }

  // The value of `src`, whose object is protected until this protects another, or ends.
  template <class T>
  T* protect(const std::atomic<T*>& src) noexcept {
    T* ptr = src.load(std::memory_order_relaxed);  // relaxed: read again below
    while (!try_protect(ptr, src)) {
    }
    return ptr;
  }

  // Protects the object at `ptr` if `src` still has that value, and returns whether it has; stores
  // the value of `src` in `ptr`.
  template <class T>
  bool try_protect(T*& ptr, const std::atomic<T*>& src) noexcept {
    static_assert(impl::protectable<T, hazard_pointer_obj_base>, "T must be hazard-protectable");
    T* const old = ptr;
    slot().hold(old);
    ptr = src.load(std::memory_order_acquire);  // pairs: program
    if (old == ptr) return true;
    slot_->empty();
    return false;
  }

  // Protects the object at `ptr` instead, if it is not yet retired. Null: protects nothing.
  template <class T>
  void reset_protection(const T* ptr) noexcept {
    static_assert(impl::protectable<T, hazard_pointer_obj_base>, "T must be hazard-protectable");
    slot().hold(ptr);
  }
  void reset_protection(std::nullptr_t = nullptr) noexcept { slot().empty(); }

  // Exchanges what the two own. What either protects stays protected.
  void swap(hazard_pointer& other) noexcept { std::swap(slot_, other.slot_); }

 private:
  friend hazard_pointer make_hazard_pointer();
  explicit hazard_pointer(impl::LooseSlot& slot) noexcept : slot_(&slot) {}

  impl::LooseSlot& slot() const noexcept {
    if (slot_ == nullptr) [[unlikely]]
      impl::fail_with("an empty hazard_pointer is used");
    return *slot_;
  }

  void give_back() noexcept {
    if (slot_ == nullptr) return;
    impl::Unguarded::core(impl::std26_hazards()).give_back_loose_slot(*slot_);
  }

  impl::LooseSlot* slot_ = nullptr;
};

// Throws std::bad_alloc if there is no memory.
inline hazard_pointer make_hazard_pointer() {
  impl::LooseSlot* slot = impl::Unguarded::core(impl::std26_hazards()).take_loose_slot();
  if (slot == nullptr) throw std::bad_alloc();
  return hazard_pointer(*slot);
}

inline void swap(hazard_pointer& a, hazard_pointer& b) noexcept { a.swap(b); }

}  // namespace near::reclaim::std26
