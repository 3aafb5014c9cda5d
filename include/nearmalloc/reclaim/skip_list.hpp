// skip_list: a lock-free ordered map of expected logarithmic time, whose values may be replaced.
//
//   domain<debra<>> d;
//   skip_list<int64_t, double, domain<debra<>>> prices(d);
//   prices.insert(1, 9.5);                               // pins by itself
//   prices.upsert(1, 9.75);                              // in one step: no reader misses the key
//   prices.compare_and_replace(1, 9.75, 10);
//   double sum = 0;
//   prices.range(0, 100, [&](int64_t, double price) { sum += price; });
//
// Operations on one key are linearizable; those on different keys are ordered as far as
// happens-before orders them (on x86-64 all are linearizable). All are lock-free; find and contains
// write nothing where a guard protects everything. Under every scheme: each operation holds three
// slots at most. A node takes two allocations, as its value lies apart: so a value is replaced by
// one exchange, and the node stays. abtree.hpp copies a leaf of keys and values at each change,
// so it is for small ones; its `scan` sees a range at one moment.
//
// Invariant: a key is in the map exactly if its node on level 0 has a value. A node without one is
// being removed, or is inserted no more; the next insertion of its key first removes it. A value is
// retired by the thread that took it out of its node; see impl/skip_walk.hpp for nodes.
// Thread-safety: any thread; size, key_sum, check, for_each and the destructor only when no other
// thread is inside.
// Papers: [Pugh90; Fraser04; Herlihy12 §14.4].
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/self_pinning.hpp"
#include "nearmalloc/reclaim/impl/skip_walk.hpp"

namespace near::reclaim {
namespace impl {

// Threads begin differently, also those that get the stack of one before: splitmix64 [Steele14].
inline uint64_t first_dice() noexcept {
  static Atomic<uint64_t> threads{0};
  // relaxed: the numbers only have to differ
  uint64_t dice = threads.fetch_add(0x9e3779b97f4a7c15, kRelaxed);
  dice = (dice ^ dice >> 30) * 0xbf58476d1ce4e5b9;
  dice = (dice ^ dice >> 27) * 0x94d049bb133111eb;
  return (dice ^ dice >> 31) | 1;
}

// Of all nodes one in four has a second level, one in 16 a third.
inline unsigned random_height(unsigned most) noexcept {
  static thread_local uint64_t dice = first_dice();
  dice ^= dice << 13;
  dice ^= dice >> 7;
  dice ^= dice << 17;
  const auto zeros = static_cast<unsigned>(std::countr_zero(dice));
  return 1 + (zeros / 2 < most - 1 ? zeros / 2 : most - 1);
}

// Key: copyable, ordered by <, which must not throw. Value: copyable; find returns a copy.
template <class Key, class Value, class Domain>
class guarded_skip_list {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using guard_type = typename Domain::guard_type;

  explicit guarded_skip_list(Domain& domain) : domain_(domain) {}
  guarded_skip_list(const guarded_skip_list&) = delete;
  guarded_skip_list& operator=(const guarded_skip_list&) = delete;
  ~guarded_skip_list() {
    for_each_node(0, [](node* each, bool) {
      delete each->value.load(kRelaxed);  // relaxed: no other thread is inside
      delete each;
    });
  }

  // False if the key is there already; its value then stays. Throws what `new` and copies throw;
  // then nothing has changed.
  bool insert(guard_type& guard, const Key& key, const Value& value) {
    return put(guard, key, value, [](const box*) { return false; }, true) == impl::put::inserted;
  }

  // Inserts, or puts `value` in the place of the one that is there, in one step. True: inserted.
  // Throws as insert.
  bool upsert(guard_type& guard, const Key& key, const Value& value) {
    return put(guard, key, value, [](const box*) { return true; }, true) == impl::put::inserted;
  }

  // Puts `value` in the place of the one that is there if that equals `expected`. True: it did.
  // Throws as insert, and what the comparison throws.
  bool compare_and_replace(guard_type& guard, const Key& key, const Value& expected,
                           const Value& value)
    requires std::equality_comparable<Value>
  {
    const auto equals = [&](const box* there) { return there->value == expected; };
    return put(guard, key, value, equals, false) == impl::put::replaced;
  }

  bool erase(guard_type& guard, const Key& key) noexcept {
    auto&& own = impl::own_slots(guard);
    walk_type walk(own, head_);
    if (!walk.seek(key, top(), 0)) return false;
    node& there = *walk.node();
    box* const taken = there.value.exchange(nullptr, kAcqRel);  // pairs: skip-value
    if (taken == nullptr) return false;
    own.retire(taken);
    impl::skip_remove(there);
    impl::skip_let_go(own, head_, top(), there);
    return true;
  }

  std::optional<Value> find(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const box* found = look_up(own, key);
    return found != nullptr ? std::optional<Value>(found->value) : std::nullopt;
  }

  bool contains(guard_type& guard, const Key& key) const noexcept {
    auto&& own = impl::own_slots(guard);
    return look_up(own, key) != nullptr;
  }

  // Effect: calls f(key, value) for keys of [lo, hi) in order. Each was there at some moment of the
  // call; a key that was there throughout is visited. Returns how many were visited. `f` may use
  // the list, and the guard; but it must not repin it or report a quiescent state.
  template <class F>
  size_t range(guard_type& guard, const Key& lo, const Key& hi, F f) const {
    return visit_from(guard, &lo, [&](const Key& key, const Value& value) {
      if (!(key < hi)) return false;
      f(key, value);
      return true;
    });
  }

  // As range, for all keys.
  template <class F>
  size_t visit(guard_type& guard, F f) const {
    return visit_from(guard, nullptr, [&](const Key& key, const Value& value) {
      f(key, value);
      return true;
    });
  }

  // Erases the keys of [lo, hi), each at a moment of its own; returns how many. A key that is
  // inserted meanwhile may stay.
  size_t erase_range(guard_type& guard, const Key& lo, const Key& hi) {
    return impl::erase_each(*this, guard, lo, hi);
  }

  // For inspection: no other thread is inside.
  template <class F>
  void for_each(F f) const {
    for_each_node(0, [&](const node* each, bool) {
      const box* its = each->value.load(kRelaxed);  // relaxed: no other thread is inside
      if (its != nullptr) f(each->key, its->value);
    });
  }

  // Reports on stderr what is wrong.
  bool check() const {
    bool good = true;
    size_t below = SIZE_MAX;
    for (unsigned level = 0; level < kLevels; level++) {
      const node* before = nullptr;
      size_t number = 0;
      for_each_node(level, [&](const node* each, bool removed) {
        good &= expect(!removed, "a removed node is still linked");
        // relaxed: no other thread is inside
        good &= expect(each->value.load(kRelaxed) != nullptr, "a node has no value");
        good &= expect(each->height > level, "a node is linked above its height");
        good &= expect(before == nullptr || before->key < each->key, "keys do not ascend");
        before = each;
        number++;
      });
      good &= expect(number <= below, "a level has more nodes than the one below");
      good &= expect(number == 0 || level < top(), "a level is above the top");
      below = number;
    }
    return good;
  }

 private:
  static constexpr unsigned kLevels = 16;

  struct box : impl::born_under<guard_type> {
    explicit box(const Value& its_value) : value(its_value) {}
    const Value value;
  };

  struct before_all {};  // a probe that no node precedes

  // Its links follow it in memory.
  struct node : impl::born_under<guard_type> {
    node(const Key& its_key, unsigned its_height) : height(its_height), key(its_key) {
      for (unsigned i = 0; i < height; i++) new (links() + i) impl::list_link(0);
    }
    static void* operator new(size_t bytes, unsigned height) {
      return ::operator new(bytes + height * sizeof(impl::list_link));
    }
    static void operator delete(void* memory, unsigned) { ::operator delete(memory); }
    static void operator delete(void* memory) { ::operator delete(memory); }

    impl::list_link* links() { return reinterpret_cast<impl::list_link*>(this + 1); }
    size_t bytes() const { return sizeof(node) + height * sizeof(impl::list_link); }
    bool precedes(const Key& probe) const { return key < probe; }
    bool matches(const Key& probe) const { return !(probe < key); }
    bool precedes(before_all) const { return false; }
    bool matches(before_all) const { return true; }
    const Key& probe() const { return key; }

    Atomic<box*> value{nullptr};
    Atomic<uint32_t> holders{2};
    const uint32_t height;
    const Key key;
  };
  static_assert(alignof(node) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "keys of extended alignment");
  static_assert(sizeof(node) % alignof(impl::list_link) == 0);

  using walk_type = impl::skip_walk<node, guard_type>;

  // relaxed: a hint, except to the thread that raised it
  unsigned top() const noexcept { return top_.load(kRelaxed); }

  void raise_top(unsigned height) noexcept {
    unsigned top = top_.load(kRelaxed);  // relaxed: the exchange checks it
    while (top < height &&
           !top_.compare_exchange_weak(top, height, kRelaxed, kRelaxed)) {  // relaxed: a hint
    }
  }

  std::unique_ptr<node> make_node(const Key& key) const {
    const unsigned height = impl::random_height(kLevels);
    return std::unique_ptr<node>(new (height) node(key, height));
  }

  // Replaces the value that is there if allows(it); inserts if none is there and `may_insert`.
  template <class Allows>
  impl::put put(guard_type& guard, const Key& key, const Value& value, Allows allows,
                bool may_insert) {
    auto&& own = impl::own_slots(guard);
    std::unique_ptr<box> mine;
    std::unique_ptr<node> fresh;
    walk_type walk(own, head_);
    for (;;) {
      if (walk.seek(key, top(), 0)) {
        node& there = *walk.node();
        box* old = own.protect(kValueSlot, there.value);
        if (old == nullptr) {
          impl::skip_remove(there);  // the next walk unlinks it
          continue;
        }
        if (!allows(old)) return impl::put::refused;
        if (mine == nullptr) mine = std::make_unique<box>(value);
        // pairs: skip-value
        if (!there.value.compare_exchange_strong(old, mine.get(), kAcqRel, kRelaxed)) continue;
        mine.release();
        own.retire(old);
        return impl::put::replaced;
      }
      if (!may_insert) return impl::put::refused;
      if (mine == nullptr) mine = std::make_unique<box>(value);
      if (fresh == nullptr) fresh = make_node(key);
      fresh->value.store(mine.get(), kRelaxed);                       // relaxed: not yet linked
      fresh->links()[0].store(impl::word_of(walk.node()), kRelaxed);  // relaxed: the same
      if (walk.link(fresh.get())) break;
    }
    mine.release();
    node& linked = *fresh.release();
    raise_top(linked.height);
    impl::skip_raise(own, head_, top(), linked);
    impl::skip_let_go(own, head_, top(), linked);
    return impl::put::inserted;
  }

  // The value, which may be read until the slots are reused or the guard ends; or null.
  const box* look_up(guard_type& guard, const Key& key) const noexcept {
    if constexpr (guard_type::protects_all) {
      node* const found = impl::skip_find<node>(head_, top(), key);
      const bool is_there = found != nullptr && found->matches(key);
      return is_there ? found->value.load(kAcquire) : nullptr;  // pairs: skip-value
    } else {
      walk_type walk(guard, head_);
      if (!walk.seek(key, top(), 0)) return nullptr;
      return guard.protect(kValueSlot, walk.node()->value);
    }
  }

  // Visits from `*lo`, or the first key, on until f returns false.
  template <class F>
  size_t visit_from(guard_type& guard, const Key* lo, F f) const {
    auto&& own = impl::own_slots(guard);
    size_t visited = 0;
    walk_type walk(own, head_);
    impl::SectionSteps steps;
    if (lo != nullptr) {
      walk.seek(*lo, top(), 0);
    } else {
      walk.seek(before_all{}, 1, 0);
    }
    while (walk.node() != nullptr) {
      const node& at = *walk.node();
      const box* its = own.protect(kValueSlot, at.value);
      if (its != nullptr) {
        const impl::OneSection section(own);
        if (!f(at.key, its->value)) return visited;
        visited++;
      }
      // A new section leaves nothing of the walk but `at`, which may have been removed.
      if (!impl::begins_section(own, steps, &at) && walk.advance()) continue;
      const Key last = at.key;
      while (walk.seek(last, top(), 0) && !walk.advance()) {
      }
    }
    return visited;
  }

  // For inspection: no other thread is inside.
  template <class F>
  void for_each_node(unsigned level, F f) const {
    // relaxed: no other thread is inside
    for (node* each = impl::node_of<node>(head_[level].load(kRelaxed)); each != nullptr;) {
      const uintptr_t next = each->links()[level].load(kRelaxed);  // relaxed: the same
      f(each, (next & impl::kRemovedBit) != 0);
      each = impl::node_of<node>(next);
    }
  }

  static bool expect(bool holds, const char* otherwise) {
    if (!holds) std::fprintf(stderr, "skip_list: %s\n", otherwise);
    return holds;
  }

 protected:
  Domain& domain_;

 private:
  static constexpr unsigned kValueSlot = 2;
  Atomic<unsigned> top_{1};                // no node is higher; it never falls
  mutable impl::list_link head_[kLevels];  // mutable: a search may unlink removed nodes
};

}  // namespace impl

// Adds operations without a guard, which pin by themselves; size and key_sum.
template <class Key, class Value, class Domain>
class skip_list : public impl::self_pinning_map<
                      impl::self_pinning_ordered<impl::guarded_skip_list<Key, Value, Domain>>> {
 public:
  using pinning = impl::self_pinning_map<
      impl::self_pinning_ordered<impl::guarded_skip_list<Key, Value, Domain>>>;
  using pinning::pinning;
};

}  // namespace near::reclaim
