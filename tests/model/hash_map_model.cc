// Model of the hash map (reclaim/hash_map.hpp, impl/bucket_table.hpp) while its table grows from
// one bucket and its buckets get their dummies. Its list has a model of its own, with frees; here
// guards protect all, and nothing is freed before the end.
//
// Invariants: insert and erase of a key succeed in turn; a key that no thread erases is found, with
// the value that its maker wrote, in whichever bucket the search begins; at rest the map is as its
// own check() demands, and has grown.
// Bound: 3 threads, 3 operations each on 4 keys, of which one stays; random.
#include <optional>
#include <thread>  // before Relacy's macros

#include "model_new.h"
#include "nearmalloc/reclaim/hash_map.hpp"
#include "runner.h"

namespace near::reclaim::impl {
uint32_t fork_count() noexcept { return 0; }
}  // namespace near::reclaim::impl

namespace near::model {
namespace {

Witness tables_grown("tables that grew twice");
Witness inserts("successful inserts");
Witness erasures("successful erasures");

using Value = Plain<uint32_t>;

// Keeps what is retired until the end.
struct Home {
  struct guard_type {
    static constexpr bool protects_all = true;
    template <class Node>
    void retire(Node* node) {
      expect(node != nullptr, "nothing is retired");
      home.keep(node, [](void* dead) { delete static_cast<Node*>(dead); });
    }
    Home& home;
  };

  void free_all() {
    for (uint32_t i = 0; i < count; i++) free_one[i](retired[i]);
  }
  void keep(void* node, void (*destroy)(void*)) {
    for (uint32_t i = 0; i < count; i++) expect(retired[i] != node, "a node is retired twice");
    expect(count < kRoom, "more is retired than was made");
    retired[count] = node;
    free_one[count++] = destroy;
  }

  static constexpr uint32_t kRoom = 16;
  void* retired[kRoom];
  void (*free_one[kRoom])(void*);
  uint32_t count = 0;
};

// Keys whose hashes are counted in the map's sample, so that each insert may enlarge the table; the
// hashes are in different buckets of four.
struct Hash {
  size_t operator()(uint32_t key) const { return hashes()[key]; }
  static const uint64_t* hashes();
  static constexpr uint32_t kKeys = 4;
};

// As guarded_hash_map::mix.
uint64_t mixed(uint64_t bits) {
  for (int round = 0; round < 2; ++round) bits = (bits ^ (bits >> 32)) * 0x9E3779B97F4A7C15u;
  return bits ^ (bits >> 32);
}

const uint64_t* Hash::hashes() {
  static const auto found = [] {
    std::array<uint64_t, kKeys> all{};
    uint64_t hash = 0;
    for (uint32_t key = 0; key < kKeys; key++) {
      while (mixed(hash) >> 60 != 0 || mixed(hash) % kKeys != kKeys - 1 - key) hash++;
      all[key] = hash;
    }
    return all;
  }();
  return found.data();
}

using Map = reclaim::impl::guarded_hash_map<uint32_t, Value, Home, Hash>;

constexpr uint32_t kStays = 0;  // in the last bucket, which is used last
constexpr uint32_t stamp(uint32_t key) { return key + 100; }

class HashMap : public rl::test_suite<HashMap, 3> {
 public:
  void before() {
    map_.emplace(home_, 1);
    Home::guard_type guard{home_};
    (void)map_->insert(guard, kStays, stamp(kStays));
  }

  void thread(unsigned) {
    for (int i = 0; i < 3; i++) operate();
  }

  void after() {
    int there[Hash::kKeys] = {};
    map_->for_each([&](uint32_t key, const Value& value) {
      there[key]++;
      expect(value == stamp(key), "a value of another key");
    });
    expect(there[kStays] == 1, "the key that stays is gone, or there twice");
    for (uint32_t key = 1; key < Hash::kKeys; key++) {
      expect(there[key] == present_[key], "a key differs from what threads did");
    }
    expect(map_->check(), "the map is inconsistent");
    if (map_->buckets() > 2) tables_grown.note();
    map_.reset();
    home_.free_all();
  }

 private:
  void operate() {
    Home::guard_type guard{home_};
    const uint32_t key = 1 + choose(Hash::kKeys - 1);
    switch (choose(3)) {
      case 0:
        if (!map_->insert(guard, key, stamp(key))) return;
        present_[key]++;
        return inserts.note();
      case 1:
        if (!map_->erase(guard, key)) return;
        present_[key]--;
        return erasures.note();
      default:
        const uint32_t wanted = choose(2) == 0 ? kStays : key;
        const auto value = map_->find(guard, wanted);
        expect(value.has_value() || wanted != kStays, "the key that stays was not found");
        if (value) expect(*value == stamp(wanted), "a value of another key");
    }
  }

  Home home_;
  std::optional<Map> map_;  // Relacy gives memory only from before() to after()
  int present_[Hash::kKeys] = {};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<HashMap>("grow", Random{150'000}),
};

const std::vector<Mutation> kMutations = {
    {"an element is not released", "ordered_list.hpp", "::insert", kRelease, kRelaxed},
    {"a linked bucket is not released", "hash_map.hpp", "start_slow", kRelease, kRelaxed},
    {"a linked bucket is not acquired", "hash_map.hpp", "is_linked", kAcquire, kRelaxed},
    {"a larger table is not released", "bucket_table.hpp", "::grow", kRelease, kRelaxed,
     "size_.store"},
    {"a larger table is not acquired", "bucket_table.hpp", "::size", kAcquire, kRelaxed},
};

}  // namespace near::model
