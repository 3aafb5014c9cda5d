// hash_map: a lock-free hash map that grows without moving an element.
//
//   domain<token<>> d;
//   hash_map<int64_t, int64_t, domain<token<>>> map(d);
//   map.insert(1, 10);
//   map.upsert(1, 11);                          // there or not
//   map.compare_and_replace(1, 11, 12);         // if it is 11
//   int64_t sum = 0;
//   map.visit([&](int64_t, int64_t value) { sum += value; });   // while others change it
//
// All elements are in one ordered list, sorted by their hash with the bits reversed, so that the
// elements of a bucket are neighbours and still are when the number of buckets doubles. A bucket
// holds a dummy node of that list, linked when the bucket is first used and never removed, so a
// search may start at it without protecting it. Until it is linked, and if memory for a larger
// table is refused, searches start further away: only `insert` needs memory to succeed.
//
// Fork: if another thread was linking a bucket, or enlarging the table, the child's next operation
// that needs it completes it.
//
// Operations on one key are linearizable; those on different keys are ordered as far as
// happens-before orders them (on x86-64 all are linearizable). All are lock-free.
//
// Invariant: along the list the pairs (order, key) ascend strictly; an element's order is the
// reversed hash of its key, made odd; the dummy of bucket b has order reverse(b), which is even;
// buckets = first << k, and segment i <= k of the table exists. At rest no node is marked removed,
// bucket b is linked exactly if its dummy is in the list, and the sample counts its elements.
// Thread-safety: any thread; size, key_sum, check, for_each and the destructor only when no other
// thread is inside.
// Paper: [Shalev06] on the list of [Michael02].
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/impl/bucket_table.hpp"
#include "nearmalloc/reclaim/impl/ordered_list.hpp"
#include "nearmalloc/reclaim/impl/own_slots.hpp"
#include "nearmalloc/reclaim/impl/self_pinning.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"

namespace near::reclaim {
namespace impl {

// Key: copyable, ordered by <. Value: copyable; a copy is what find returns. `Hash` need not be
// good in any particular bits: the map mixes them. Elements with equal hashes share a bucket.
template <class Key, class Value, class Domain, class Hash>
class guarded_hash_map {
 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using guard_type = typename Domain::guard_type;

  // `first_buckets` is rounded up to a power of two; the number doubles when there are more
  // elements than buckets.
  explicit guarded_hash_map(Domain& domain, size_t first_buckets = 64, Hash hash = Hash())
      : domain_(domain), hash_(std::move(hash)), table_(first_buckets) {
    // relaxed: no other thread is inside
    table_[0].state.store(kLinked, kRelaxed);
  }
  guarded_hash_map(const guarded_hash_map&) = delete;
  guarded_hash_map& operator=(const guarded_hash_map&) = delete;
  ~guarded_hash_map() {
    impl::list_each<node>(first().next, [](node* each, bool) {
      if (!each->is_dummy()) delete static_cast<element*>(each);
    });
  }

  // False if the key is there already; its value then stays. Throws what `new` and copies throw;
  // then nothing has changed.
  bool insert(guard_type& guard, const Key& key, const Value& value) {
    auto&& own = impl::own_slots(guard);
    const uint64_t mixed = mix(key);
    const size_t buckets = table_.size();
    const probe_type probe{element_order(mixed), &key};
    const auto make = [&] { return new element(probe.order, key, value); };
    if (!impl::list_insert<node>(own, start(own, mixed & (buckets - 1)), probe, make)) {
      return false;
    }
    count_inserted(mixed, buckets);
    return true;
  }

  // Inserts, or puts `value` in the place of the one that is there, in one step. True: inserted.
  // Throws as insert.
  bool upsert(guard_type& guard, const Key& key, const Value& value) {
    return put(guard, key, value, [](const node*) { return true; }) == impl::put::inserted;
  }

  // Puts `value` in the place of the one that is there if that equals `expected`. True: it did.
  // Throws as insert.
  bool compare_and_replace(guard_type& guard, const Key& key, const Value& expected,
                           const Value& value)
    requires std::equality_comparable<Value>
  {
    const auto allows = [&](const node* there) {
      return there != nullptr && there->as_element().value == expected;
    };
    return put(guard, key, value, allows) == impl::put::replaced;
  }

  bool erase(guard_type& guard, const Key& key) noexcept {
    auto&& own = impl::own_slots(guard);
    const uint64_t mixed = mix(key);
    const probe_type probe{element_order(mixed), &key};
    if (!impl::list_erase<node>(own, start(own, bucket_of(mixed)), probe)) return false;
    if (in_sample(mixed)) count(-1);
    return true;
  }

  std::optional<Value> find(guard_type& guard, const Key& key) const {
    auto&& own = impl::own_slots(guard);
    const element* found = look_up(own, key);
    return found != nullptr ? std::optional<Value>(found->value) : std::nullopt;
  }

  bool contains(guard_type& guard, const Key& key) const noexcept {
    auto&& own = impl::own_slots(guard);
    return look_up(own, key) != nullptr;
  }

  // Calls f(key, value) for the elements, in no meaningful order, while other threads may change
  // the map. Each was there at some moment of the call; a key that was there throughout is visited
  // once. Returns how many were visited. `f` may use the map, and the guard.
  template <class F>
  size_t visit(guard_type& guard, F f) const {
    auto&& own = impl::own_slots(guard);
    size_t visited = 0;
    impl::list_visit<node>(own, first().next, kept_probe(), [&](const node& each) {
      if (each.is_dummy()) return true;
      f(each.as_element().key, each.as_element().value);
      ++visited;
      return true;
    });
    return visited;
  }

  size_t buckets() const noexcept { return table_.size(); }

  // Visits the elements in no meaningful order. For inspection: no other thread is inside.
  template <class F>
  void for_each(F f) const {
    impl::list_each<node>(first().next, [&](const node* each, bool removed) {
      if (removed || each->is_dummy()) return;
      f(each->as_element().key, each->as_element().value);
    });
  }

  // Reports on stderr what is wrong.
  bool check() const {
    bool good = true;
    size_t dummies = 1;  // the dummy of bucket 0 is no successor of any node
    int64_t sampled = 0;
    const node* before = &first();
    impl::list_each<node>(first().next, [&](const node* each, bool removed) {
      good &= expect(!removed, "a removed node is still linked");
      good &= expect(before->precedes(each->probe()), "order does not ascend");
      good &= each->is_dummy() ? check_dummy(*each) : check_element(*each);
      if (each->is_dummy()) {
        ++dummies;
      } else {
        sampled += in_sample(mix(each->as_element().key)) ? 1 : 0;
      }
      before = each;
    });
    good &= expect(dummies == buckets_linked(), "a linked bucket's dummy is not in the list");
    good &= expect(sampled == sample_.load(kRelaxed), "the sample is miscounted");  // relaxed: rest
    return good;
  }

 private:
  friend struct impl::TestAccess;

  struct element;

  struct probe_type {
    uint64_t order;
    const Key* key;  // null for a dummy
  };

  // A probe that outlives the node from which it comes.
  class kept_probe {
   public:
    kept_probe& operator=(const probe_type& probe) {
      order_ = probe.order;
      key_.reset();
      if (probe.key != nullptr) key_.emplace(*probe.key);
      return *this;
    }
    operator probe_type() const { return {order_, key_.has_value() ? &*key_ : nullptr}; }

   private:
    uint64_t order_ = 0;
    std::optional<Key> key_;
  };

  struct node {
    using removable_type = element;
    explicit node(uint64_t its_order) : order(its_order) {}
    bool is_dummy() const { return (order & 1) == 0; }
    const element& as_element() const { return static_cast<const element&>(*this); }
    probe_type probe() const { return {order, is_dummy() ? nullptr : &as_element().key}; }
    bool precedes(const probe_type& probe) const {
      if (order != probe.order) return order < probe.order;
      return !is_dummy() && as_element().key < *probe.key;
    }
    bool matches(const probe_type& probe) const {
      return order == probe.order && (is_dummy() || !(*probe.key < as_element().key));
    }

    impl::list_link next{0};
    Plain<uint64_t> order;  // constant once linked
  };

  struct element : node, impl::born_under<guard_type> {
    element(uint64_t its_order, const Key& its_key, const Value& its_value)
        : node(its_order), key(its_key), value(its_value) {}
    const Key key;
    const Value value;
  };

  // The thread that claims a bucket links its dummy; meanwhile others start at a bucket before it.
  // A claim contains the fork count of the process: a claim from before the last fork belongs to a
  // thread that the child does not have. The next thread takes it over, with the dummy linked or
  // not.
  static constexpr uint32_t kUnused = 0;
  static constexpr uint32_t kLinked = 1;
  static uint32_t claim_of_now() noexcept { return impl::fork_count() + 2; }
  struct bucket_type {
    node dummy{0};
    Atomic<uint32_t> state{kUnused};
  };

  // One element of so many is counted, chosen by hash: a fair sample of the whole, so that threads
  // rarely contend for the count.
  static constexpr size_t kSampled = 16;
  static bool in_sample(uint64_t mixed) { return mixed >> 60 == 0; }

  // A bijection, so it adds no collisions. Every bit of the hash affects the low bits, which choose
  // the bucket, and the high ones, which choose the sample.
  uint64_t mix(const Key& key) const {
    uint64_t bits = hash_(key);
    for (int round = 0; round < 2; ++round) {
      bits = (bits ^ (bits >> 32)) * 0x9E3779B97F4A7C15u;
    }
    return bits ^ (bits >> 32);
  }

  static uint64_t element_order(uint64_t mixed) { return impl::reverse_bits(mixed) | 1; }
  size_t bucket_of(uint64_t mixed) const { return mixed & (table_.size() - 1); }

  // Returns the new count; it is below 0 if an element was erased before it was counted.
  int64_t count(int64_t change) noexcept {
    return sample_.fetch_add(change, kRelaxed) + change;  // relaxed: it publishes nothing
  }

  node& first() const noexcept { return table_[0].dummy; }

  bool is_linked(size_t bucket) const noexcept {
    return table_[bucket].state.load(kAcquire) == kLinked;  // pairs: bucket
  }

  // The link of the bucket's dummy, or of one before it.
  impl::list_link& start(guard_type& guard, size_t bucket) const noexcept {
    return is_linked(bucket) ? table_[bucket].dummy.next : start_slow(guard, bucket);
  }

  // Links the bucket's dummy, starting at the nearest linked dummy before it.
  [[gnu::noinline]] impl::list_link& start_slow(guard_type& guard, size_t bucket) const noexcept {
    size_t before = bucket ^ std::bit_floor(bucket);
    while (!is_linked(before)) before ^= std::bit_floor(before);
    impl::list_link& from = table_[before].dummy.next;
    bucket_type& mine = table_[bucket];
    const uint32_t claim = claim_of_now();
    uint32_t state = mine.state.load(kRelaxed);  // relaxed: the exchange checks it
    // relaxed: it decides which thread may write the dummy, which no living thread has written yet
    if (state == kLinked || state == claim ||
        !mine.state.compare_exchange_strong(state, claim, kRelaxed, kRelaxed)) {
      return from;
    }
    // Written only if different: a dummy that was linked before a fork is read by other threads.
    const uint64_t order = impl::reverse_bits(bucket);
    if (mine.dummy.order != order) mine.dummy.order = order;
    impl::list_walk<node, guard_type> walk(guard, from);
    while (!walk.seek(mine.dummy.probe()) && !walk.insert(&mine.dummy)) {
    }
    mine.state.store(kLinked, kRelease);  // pairs: bucket
    return mine.dummy.next;
  }

  template <class Allows>
  impl::put put(guard_type& guard, const Key& key, const Value& value, Allows allows) {
    auto&& own = impl::own_slots(guard);
    const uint64_t mixed = mix(key);
    const size_t buckets = table_.size();
    const probe_type probe{element_order(mixed), &key};
    const auto make = [&] { return new element(probe.order, key, value); };
    impl::list_link& from = start(own, mixed & (buckets - 1));
    const impl::put done = impl::list_put<node>(own, from, probe, make, allows);
    if (done == impl::put::inserted) count_inserted(mixed, buckets);
    return done;
  }

  void count_inserted(uint64_t mixed, size_t buckets) {
    if (in_sample(mixed) && count(1) > static_cast<int64_t>(buckets / kSampled)) {
      table_.grow(buckets);
    }
  }

  const element* look_up(guard_type& guard, const Key& key) const noexcept {
    const uint64_t mixed = mix(key);
    const probe_type probe{element_order(mixed), &key};
    const node* found = impl::list_find<node>(guard, start(guard, bucket_of(mixed)), probe);
    return static_cast<const element*>(found);
  }

  bool check_dummy(const node& dummy) const {
    const uint64_t bucket = impl::reverse_bits(dummy.order);
    const bool known = bucket < table_.size() && &table_[bucket].dummy == &dummy;
    return expect(known, "a dummy is no bucket's");
  }
  bool check_element(const node& each) const {
    const bool placed = each.order == element_order(mix(each.as_element().key));
    return expect(placed, "an element's order is not its key's");
  }
  size_t buckets_linked() const {
    size_t number = 0;
    for (size_t bucket = 0; bucket < table_.size(); ++bucket) number += is_linked(bucket) ? 1 : 0;
    return number;
  }
  static bool expect(bool holds, const char* otherwise) {
    if (!holds) std::fprintf(stderr, "hash_map: %s\n", otherwise);
    return holds;
  }

 protected:
  Domain& domain_;

 private:
  const Hash hash_;
  impl::bucket_table<bucket_type> table_;
  alignas(64) Atomic<int64_t> sample_{0};  // off the line that every operation reads
};

}  // namespace impl

// Adds operations without a guard, which pin by themselves; size and key_sum.
template <class Key, class Value, class Domain, class Hash = std::hash<Key>>
class hash_map : public impl::self_pinning_map<
                     impl::self_pinning<impl::guarded_hash_map<Key, Value, Domain, Hash>>> {
 public:
  using pinning =
      impl::self_pinning_map<impl::self_pinning<impl::guarded_hash_map<Key, Value, Domain, Hash>>>;
  using pinning::pinning;
};

}  // namespace near::reclaim
