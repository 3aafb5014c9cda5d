// What sets and maps have in common: operations without a guard, which pin by themselves, and sums
// over for_each. `Structure` has the operations with a guard; its `domain_` is protected.
//
// Invariant: an operation without a guard calls the one with a guard, under a guard of its own.
// Thread-safety: any thread; size and key_sum only when no other thread is inside.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "nearmalloc/reclaim/impl/section.hpp"
#include "nearmalloc/reclaim/impl/update.hpp"

namespace near::reclaim::impl {

template <class Structure>
class self_pinning : public Structure {
 public:
  using key_type = typename Structure::key_type;
  using mapped_type = typename Structure::mapped_type;
  using guard_type = typename Structure::guard_type;
  using Structure::Structure;

  using Structure::contains;
  using Structure::erase;
  using Structure::find;
  using Structure::insert;

  bool insert(const key_type& key, const mapped_type& value) {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return insert(guard, key, value);
  }
  bool erase(const key_type& key) {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return erase(guard, key);
  }
  std::optional<mapped_type> find(const key_type& key) const {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return find(guard, key);
  }
  bool contains(const key_type& key) const {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return contains(guard, key);
  }

  size_t size() const {
    size_t number = 0;
    this->for_each([&](const key_type&, const mapped_type&) { ++number; });
    return number;
  }
  uint64_t key_sum() const {
    uint64_t sum = 0;
    this->for_each(
        [&](const key_type& key, const mapped_type&) { sum += static_cast<uint64_t>(key); });
    return sum;
  }
};

// Erases the keys of [low, high) one by one, under a guard of the caller; returns how many.
template <class Structure>
size_t erase_each(Structure& structure, typename Structure::guard_type& guard,
                  const typename Structure::key_type& low,
                  const typename Structure::key_type& high) {
  size_t erased = 0;
  structure.range(guard, low, high, [&](const auto& key, const auto&) {
    erased += structure.erase(guard, key) ? 1 : 0;
  });
  return erased;
}

// As self_pinning, for ordered structures.
template <class Structure>
class self_pinning_ordered : public self_pinning<Structure> {
 public:
  using self_pinning<Structure>::self_pinning;
  using Structure::erase_range;
  using Structure::range;

  template <class Visit>
  size_t range(const typename Structure::key_type& low, const typename Structure::key_type& high,
               Visit visit) const {
    typename Structure::guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return range(guard, low, high, visit);
  }

  size_t erase_range(const typename Structure::key_type& low,
                     const typename Structure::key_type& high) {
    typename Structure::guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return erase_range(guard, low, high);
  }
};

// As Pinning, one whose values can be replaced under a guard of the caller.
template <class Pinning>
class self_pinning_replacing : public Pinning {
 public:
  using key_type = typename Pinning::key_type;
  using mapped_type = typename Pinning::mapped_type;
  using guard_type = typename Pinning::guard_type;
  using Pinning::compare_and_replace;
  using Pinning::Pinning;
  using Pinning::upsert;

  bool upsert(const key_type& key, const mapped_type& value) {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return upsert(guard, key, value);
  }
  bool compare_and_replace(const key_type& key, const mapped_type& expected,
                           const mapped_type& value)
    requires std::equality_comparable<mapped_type>
  {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return compare_and_replace(guard, key, expected, value);
  }
};

// As self_pinning or self_pinning_ordered, for maps whose values can be replaced.
template <class Pinning>
class self_pinning_map : public self_pinning_replacing<Pinning> {
 public:
  using guard_type = typename Pinning::guard_type;
  using Pinning::visit;
  using self_pinning_replacing<Pinning>::self_pinning_replacing;

  template <class Visit>
  size_t visit(Visit f) const {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return visit(guard, f);
  }
};

// As self_pinning_ordered, for structures that have `update`: upsert and compare_and_replace
// follow from it.
template <class Structure>
class updated_ordered : public self_pinning_ordered<Structure> {
 public:
  using key_type = typename Structure::key_type;
  using mapped_type = typename Structure::mapped_type;
  using guard_type = typename Structure::guard_type;
  using self_pinning_ordered<Structure>::self_pinning_ordered;

  // Inserts, or puts `value` in the place of the one that is there, in one step. True: inserted.
  // Throws std::bad_alloc; then all is as before.
  bool upsert(guard_type& guard, const key_type& key, const mapped_type& value) {
    return upsert_by_update(*this, guard, key, value);
  }

  // Puts `value` in the place of the one that is there if that equals `expected`. True: it did.
  // Throws as upsert.
  bool compare_and_replace(guard_type& guard, const key_type& key, const mapped_type& expected,
                           const mapped_type& value)
    requires std::equality_comparable<mapped_type>
  {
    return replace_by_update(*this, guard, key, expected, value);
  }
};

// As self_pinning_ordered, for trees: they have `update` and `take`.
template <class Structure>
class self_pinning_tree : public self_pinning_replacing<updated_ordered<Structure>> {
 public:
  using key_type = typename Structure::key_type;
  using mapped_type = typename Structure::mapped_type;
  using guard_type = typename Structure::guard_type;
  using self_pinning_replacing<updated_ordered<Structure>>::self_pinning_replacing;
  using Structure::take;
  using Structure::update;

  template <class F>
  update_result<mapped_type> update(const key_type& key, F f) {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return update(guard, key, f);
  }
  std::optional<mapped_type> take(const key_type& key) {
    guard_type guard = this->domain_.pin();
    allow_checkpoints(guard);
    return take(guard, key);
  }
};

}  // namespace near::reclaim::impl
