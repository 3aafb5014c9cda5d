// list_set: a lock-free ordered map in one linked list, for few keys: operations take linear time.
//
//   domain<debra<>> d;
//   list_set<int64_t, int64_t, domain<debra<>>> set(d);
//   set.insert(1, 10);                        // pins by itself
//   auto h = d.attach();
//   auto g = h.pin();
//   set.find(g, 1);                           // many operations under one guard
//
// Operations on one key are linearizable; those on different keys are ordered as far as
// happens-before orders them (on x86-64 all are linearizable). insert and erase are lock-free;
// find and contains are wait-free where a guard protects everything to its end, else lock-free:
// under checkpoints a search begins anew if its place is erased as a section begins.
//
// Invariant: keys ascend strictly from the head; see impl/ordered_list.hpp for removed nodes.
// Thread-safety: any thread; size, key_sum, check, for_each and the destructor only when no other
// thread is inside.
// Paper: [Michael02].
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/ordered_list.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/self_pinning.hpp"

namespace near::reclaim {
namespace impl {

// Key: copyable, ordered by <. Value: copyable; a copy is what find returns.
template <class Key, class Value, class Domain>
class guarded_list {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using guard_type = typename Domain::guard_type;

  explicit guarded_list(Domain& domain) : domain_(domain) {}
  guarded_list(const guarded_list&) = delete;
  guarded_list& operator=(const guarded_list&) = delete;
  ~guarded_list() {
    impl::list_each<node>(head_, [](node* each, bool) { delete each; });
  }

  // False if the key is there already; its value then stays. Throws what `new` and copies throw;
  // then nothing has changed.
  bool insert(guard_type& guard, const Key& key, const Value& value) {
    auto&& own = impl::own_slots(guard);
    return impl::list_insert<node>(own, head_, key, [&] { return new node(key, value); });
  }

  bool erase(guard_type& guard, const Key& key) noexcept {
    auto&& own = impl::own_slots(guard);
    return impl::list_erase<node>(own, head_, key);
  }

  std::optional<Value> find(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const node* found = impl::list_find<node>(own, head_, key);
    return found != nullptr ? std::optional<Value>(found->value) : std::nullopt;
  }

  bool contains(guard_type& guard, const Key& key) const noexcept {
    auto&& own = impl::own_slots(guard);
    return impl::list_find<node>(own, head_, key) != nullptr;
  }

  // Effect: calls f(key, value) for keys of [lo, hi) in order. Each was there at some moment of the
  // call; a key that was there throughout is visited. Returns how many were visited. `f` may use
  // the list, and the guard.
  template <class F>
  size_t range(guard_type& guard, const Key& lo, const Key& hi, F f) const {
    auto&& own = impl::own_slots(guard);
    size_t visited = 0;
    impl::list_visit<node>(own, head_, lo, [&](const node& each) {
      if (!(each.key < hi)) return false;
      f(each.key, each.value);
      ++visited;
      return true;
    });
    return visited;
  }

  // Erases the keys of [lo, hi), each at a moment of its own; returns how many. A key that is
  // inserted meanwhile may stay.
  size_t erase_range(guard_type& guard, const Key& lo, const Key& hi) {
    return impl::erase_each(*this, guard, lo, hi);
  }

  template <class F>
  void for_each(F f) const {
    impl::list_each<node>(head_, [&](const node* each, bool removed) {
      if (!removed) f(each->key, each->value);
    });
  }

  // Reports on stderr what is wrong.
  bool check() const {
    bool good = true;
    const node* before = nullptr;
    impl::list_each<node>(head_, [&](const node* each, bool removed) {
      good &= expect(!removed, "a removed node is still linked");
      good &= expect(before == nullptr || before->key < each->key, "keys do not ascend");
      before = each;
    });
    return good;
  }

 private:
  struct node : impl::born_under<guard_type> {
    using removable_type = node;
    node(const Key& its_key, const Value& its_value) : key(its_key), value(its_value) {}
    bool precedes(const Key& probe) const { return key < probe; }
    bool matches(const Key& probe) const { return !(probe < key); }
    const Key& probe() const { return key; }

    impl::list_link next{0};
    const Key key;
    const Value value;
  };

  static bool expect(bool holds, const char* otherwise) {
    if (!holds) std::fprintf(stderr, "list_set: %s\n", otherwise);
    return holds;
  }

 protected:
  Domain& domain_;

 private:
  mutable impl::list_link head_{0};  // mutable: a search may unlink removed nodes
};

}  // namespace impl

// Adds operations without a guard, which pin by themselves; size and key_sum.
template <class Key, class Value, class Domain>
class list_set : public impl::self_pinning_ordered<impl::guarded_list<Key, Value, Domain>> {
 public:
  using impl::self_pinning_ordered<impl::guarded_list<Key, Value, Domain>>::self_pinning_ordered;
};

}  // namespace near::reclaim
