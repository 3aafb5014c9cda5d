// A domain in which one real thread plays many: at every hold and at every comparison of keys the
// test may run whole operations of "another thread", as if the running one had been preempted
// there. A retired object is freed at once unless the scheme forbids it: hazards while it is held,
// epochs while an older guard exists.
//
// Invariant: an object is deleted when no slot of any guard holds it (Hazards), or when all guards
// that existed when it was retired are gone (Epochs); not a moment later.
// Thread-safety: one thread uses it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace near_test {

struct Hazards {
  static constexpr bool kProtectsAll = false;
};
struct Epochs {
  static constexpr bool kProtectsAll = true;
};

template <class Scheme>
class PreemptingDomain {
 public:
  class Guard {
   public:
    static constexpr bool protects_all = Scheme::kProtectsAll;

    explicit Guard(PreemptingDomain& domain) : domain_(domain), born_(domain.retirements_) {
      domain_.guards_.push_back(this);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      std::erase(domain_.guards_, this);
      domain_.free_what_may_be();
    }

    template <class T>
    T* protect(unsigned slot, const std::atomic<T*>& source) noexcept {
      T* object = nullptr;
      do {
        object = source.load();
        hold(slot, object);
      } while (object != source.load());
      return object;
    }
    void hold(unsigned slot, const void* object) noexcept {
      domain_.preempt();
      slots_[slot] = object;
      if (!protects_all) domain_.free_what_may_be();
      domain_.preempt();
    }
    template <class T>
    void retire(T* object) noexcept {
      domain_.retire(object, [](void* each) noexcept { delete static_cast<T*>(each); });
    }
    bool holds(const void* object) const {
      return std::find(slots_.begin(), slots_.end(), object) != slots_.end();
    }
    uint64_t born() const { return born_; }

   private:
    PreemptingDomain& domain_;
    const uint64_t born_;
    std::array<const void*, 64> slots_{};
  };

  using guard_type = Guard;

  PreemptingDomain() = default;
  PreemptingDomain(const PreemptingDomain&) = delete;
  PreemptingDomain& operator=(const PreemptingDomain&) = delete;

  Guard pin() { return Guard(*this); }

  // Sets what the other threads do while one is preempted; most calls of it do nothing.
  void set_preemption(std::function<void()> others) { others_ = std::move(others); }
  void preempt() {
    if (others_) others_();
  }

  size_t retired() const { return retirements_; }
  size_t unreclaimed() const { return limbo_.size(); }

 private:
  struct Retired {
    void* object;
    void (*destroy)(void*) noexcept;
    uint64_t when;
  };

  void retire(void* object, void (*destroy)(void*) noexcept) {
    limbo_.push_back({object, destroy, retirements_++});
    free_what_may_be();
  }

  bool may_be_freed(const Retired& each) const {
    return std::none_of(guards_.begin(), guards_.end(), [&](const Guard* guard) {
      return Scheme::kProtectsAll ? guard->born() <= each.when : guard->holds(each.object);
    });
  }

  void free_what_may_be() {
    std::erase_if(limbo_, [this](const Retired& each) {
      const bool may = may_be_freed(each);
      if (may) each.destroy(each.object);
      return may;
    });
  }

  std::vector<Guard*> guards_;
  std::vector<Retired> limbo_;
  uint64_t retirements_ = 0;
  std::function<void()> others_;
};

}  // namespace near_test
