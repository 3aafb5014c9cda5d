// A domain for tests of structures: it looks at all hazard pointers in every retirement, so that an
// object that no thread holds is poisoned and freed at once.
// Invariant: an object is deleted when, after its retirement, it was found in no slot; so a pointer
// that a structure uses without having held and validated it points to poison.
// Thread-safety: any thread may use it; a guard belongs to its thread.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace near_test {

class EagerDomain {
 public:
  static constexpr size_t kGuards = 64;
  static constexpr size_t kSlots = 64;

  class guard_type {
   public:
    static constexpr bool protects_all = false;

    explicit guard_type(EagerDomain& domain) : domain_(domain), row_(domain.take_row()) {}
    ~guard_type() {
      for (auto& slot : row_.slots) slot.store(nullptr, std::memory_order_release);
      row_.taken.store(false, std::memory_order_release);
    }
    guard_type(const guard_type&) = delete;
    guard_type& operator=(const guard_type&) = delete;

    // Yields now and then, at the moments where validation matters.
    void hold(unsigned slot, const void* object) {
      if (++turn_ % 64 == 0) std::this_thread::yield();
      row_.slots[slot].exchange(object, std::memory_order_seq_cst);
      if (turn_ % 32 == 0) std::this_thread::yield();
    }
    template <class T>
    T* protect(unsigned slot, const std::atomic<T*>& source) {
      T* object = source.load(std::memory_order_seq_cst);
      for (;;) {
        hold(slot, object);
        T* const again = source.load(std::memory_order_seq_cst);
        if (again == object) return object;
        object = again;
      }
    }
    template <class T>
    void retire(T* object) {
      domain_.retire({object, [](void* dead) {
                        static_cast<T*>(dead)->~T();
                        std::memset(dead, 0xdb, sizeof(T));
                        ::operator delete(dead);
                      }});
    }

   private:
    friend class EagerDomain;
    struct Row {
      std::atomic<bool> taken{false};
      std::array<std::atomic<const void*>, kSlots> slots{};
    };

    EagerDomain& domain_;
    Row& row_;
    unsigned turn_ = 0;
  };

  struct handle_type {
    EagerDomain& domain;
    guard_type pin() { return guard_type(domain); }
  };

  EagerDomain() = default;
  ~EagerDomain() {
    for (const Retired& each : retired_) each.free(each.object);
  }
  EagerDomain(const EagerDomain&) = delete;
  EagerDomain& operator=(const EagerDomain&) = delete;

  handle_type attach() { return {*this}; }
  guard_type pin() { return guard_type(*this); }

  // Call it while no thread is pinned: objects that are left were not freed, though unheld.
  size_t unreclaimed() {
    const std::lock_guard lock(mutex_);
    free_unheld();
    return retired_.size();
  }

 private:
  struct Retired {
    void* object;
    void (*free)(void*);
  };

  guard_type::Row& take_row() {
    for (size_t i = std::hash<std::thread::id>()(std::this_thread::get_id());; ++i) {
      auto& row = rows_[i % kGuards];
      if (!row.taken.exchange(true, std::memory_order_seq_cst)) return row;
    }
  }

  void retire(const Retired& dead) {
    const std::lock_guard lock(mutex_);
    retired_.push_back(dead);
    free_unheld();
  }

  void free_unheld() {
    std::erase_if(retired_, [this](const Retired& each) {
      if (is_held(each.object)) return false;
      each.free(each.object);
      return true;
    });
  }

  bool is_held(const void* object) const {
    for (const auto& row : rows_) {
      // A thread that takes the row from now on holds only after the object was retired.
      if (!row.taken.load(std::memory_order_seq_cst)) continue;
      for (const auto& slot : row.slots) {
        if (slot.load(std::memory_order_seq_cst) == object) return true;
      }
    }
    return false;
  }

  std::array<guard_type::Row, kGuards> rows_;
  std::mutex mutex_;
  std::vector<Retired> retired_;
};

}  // namespace near_test
