// Any set or map of the reclamation library behind one interface: the checks are compiled once, and
// for another structure or domain the compiler compiles only its operations.
//
// Invariant: every operation goes to the structure unchanged.
// Thread-safety: an AnyClient belongs to the thread that asked for it. Any thread may use an
// AnySet, except that size, key_sum, check and for_each require that no other thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "jittery_key.h"

namespace near_test {

inline uint64_t stamp(const Key& key) {
  return (static_cast<uint64_t>(key) + 1) * 0x9E3779B97F4A7C15u;
}

template <class Set>
concept HasRange =
    requires(Set& set, Key key) { set.range(key, key, [](const Key&, uint64_t) {}); };

using Visit = std::function<void(const Key&, uint64_t)>;

// The operations of one way to pin.
class AnyClient {
 public:
  AnyClient() = default;
  AnyClient(const AnyClient&) = delete;
  AnyClient& operator=(const AnyClient&) = delete;
  virtual ~AnyClient() = default;

  virtual bool insert(const Key& key, uint64_t value) = 0;
  virtual bool erase(const Key& key) = 0;
  virtual std::optional<uint64_t> find(const Key& key) const = 0;
  virtual bool contains(const Key& key) const = 0;
  // Only for a set that has ranges.
  virtual size_t range(const Key& lo, const Key& hi, const Visit& visit) const = 0;
};

// By itself it pins for each operation.
class AnySet : public AnyClient {
 public:
  // Has a handle, and with `nested` two guards at a time.
  virtual std::unique_ptr<AnyClient> attach(bool nested) = 0;
  virtual bool has_range() const = 0;
  virtual size_t size() const = 0;
  virtual uint64_t key_sum() const = 0;
  virtual bool check() const = 0;
  virtual void for_each(const Visit& visit) const = 0;
};

template <class Set, class Handle>
class HandleOf final : public AnyClient {
 public:
  HandleOf(Set& set, Handle handle, bool nested)
      : set_(set), handle_(std::move(handle)), nested_(nested) {}

  bool insert(const Key& key, uint64_t value) override {
    return pinned([&](auto& guard) { return set_.insert(guard, key, value); });
  }
  bool erase(const Key& key) override {
    return pinned([&](auto& guard) { return set_.erase(guard, key); });
  }
  std::optional<uint64_t> find(const Key& key) const override {
    return pinned([&](auto& guard) { return set_.find(guard, key); });
  }
  bool contains(const Key& key) const override {
    return pinned([&](auto& guard) { return set_.contains(guard, key); });
  }
  size_t range(const Key& lo, const Key& hi, const Visit& visit) const override {
    if constexpr (HasRange<Set>) {
      return pinned([&](auto& guard) { return set_.range(guard, lo, hi, std::cref(visit)); });
    }
    return 0;
  }

 private:
  template <class Operation>
  auto pinned(Operation operation) const {
    auto guard = handle_.pin();
    if (!nested_) return operation(guard);
    if constexpr (requires { guard.repin(); }) guard.repin();
    auto inner = handle_.pin();
    return operation(inner);
  }

  Set& set_;
  mutable Handle handle_;
  const bool nested_;
};

template <class Set, class Domain>
class SetOf final : public AnySet {
 public:
  SetOf(Set& set, Domain& domain) : set_(set), domain_(domain) {}

  bool insert(const Key& key, uint64_t value) override { return set_.insert(key, value); }
  bool erase(const Key& key) override { return set_.erase(key); }
  std::optional<uint64_t> find(const Key& key) const override { return set_.find(key); }
  bool contains(const Key& key) const override { return set_.contains(key); }
  size_t range(const Key& lo, const Key& hi, const Visit& visit) const override {
    if constexpr (HasRange<Set>) return set_.range(lo, hi, std::cref(visit));
    return 0;
  }
  std::unique_ptr<AnyClient> attach(bool nested) override {
    using Handle = typename Domain::handle_type;
    return std::make_unique<HandleOf<Set, Handle>>(set_, domain_.attach(), nested);
  }
  bool has_range() const override { return HasRange<Set>; }
  size_t size() const override { return set_.size(); }
  uint64_t key_sum() const override { return set_.key_sum(); }
  bool check() const override { return set_.check(); }
  void for_each(const Visit& visit) const override { set_.for_each(std::cref(visit)); }

 private:
  Set& set_;
  Domain& domain_;
};

// A domain and a set in it; the set is destroyed first.
class Trial {
 public:
  Trial() = default;
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  virtual ~Trial() = default;
  virtual AnySet& set() = 0;
};

template <class Set, class Domain, class Base = Trial>
class TrialOf : public Base {
 public:
  template <class... Settings>
  explicit TrialOf(const Settings&... settings) : domain_(settings...) {}
  AnySet& set() override { return any_; }

 protected:
  Domain domain_;

 private:
  Set set_{domain_};
  SetOf<Set, Domain> any_{set_, domain_};
};

}  // namespace near_test
