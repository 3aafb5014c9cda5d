// A reclamation scheme for tests: each retired object is freed at once unless a slot holds it.
//
// A structure that reads a node which it does not hold, or holds too late, then soon reads freed
// memory: AddressSanitizer and ThreadSanitizer see it, and plain builds read kDead patterns.
// Invariant: an object is deleted only when, after its retirement, no slot of any guard held it.
// Who may touch it: any thread; at most kGuards guards at once. The destructor frees the rest.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace near_test {

class EagerDomain {
  static constexpr unsigned kGuards = 32;
  static constexpr unsigned kSlots = 64;
  struct Record {
    std::atomic<bool> taken{false};
    std::array<std::atomic<const void*>, kSlots> held{};
  };

 public:
  class guard_type {
   public:
    static constexpr bool protects_all = false;
    explicit guard_type(EagerDomain& domain) : domain_(domain), record_(domain.take_record()) {}
    ~guard_type() {
      // pairs: eager-slot
      for (auto& held : record_.held) held.store(nullptr, std::memory_order_release);
      record_.taken.store(false, std::memory_order_release);  // pairs: eager-record
    }
    guard_type(const guard_type&) = delete;
    guard_type& operator=(const guard_type&) = delete;

    void hold(unsigned slot, const void* pointer) noexcept {
      // pairs: eager-slot
      record_.held.at(slot).exchange(pointer, std::memory_order_seq_cst);
    }
    template <class T>
    void retire(T* object) noexcept {
      domain_.retire({object, [](void* dead) { delete static_cast<T*>(dead); }});
    }

   private:
    EagerDomain& domain_;
    Record& record_;
  };

  EagerDomain() = default;
  EagerDomain(const EagerDomain&) = delete;
  EagerDomain& operator=(const EagerDomain&) = delete;
  ~EagerDomain() {
    for (const Retired& each : retired_) each.free(each.object);
  }

  guard_type pin() { return guard_type(*this); }

 private:
  struct Retired {
    void* object;
    void (*free)(void*);
  };

  Record& take_record() {
    for (Record& record : records_) {
      // pairs: eager-record
      if (!record.taken.exchange(true, std::memory_order_acquire)) return record;
    }
    std::abort();
  }

  void retire(const Retired& retired) {
    const std::lock_guard locked(mutex_);
    retired_.push_back(retired);
    std::erase_if(retired_, [&](const Retired& each) {
      const bool is_free =
          std::none_of(records_.begin(), records_.end(), [&](const Record& record) {
            return std::any_of(record.held.begin(), record.held.end(), [&](const auto& held) {
              return held.load(std::memory_order_seq_cst) == each.object;  // pairs: eager-slot
            });
          });
      if (is_free) each.free(each.object);
      return is_free;
    });
  }

  std::array<Record, kGuards> records_;
  std::mutex mutex_;
  std::vector<Retired> retired_;
};

}  // namespace near_test
