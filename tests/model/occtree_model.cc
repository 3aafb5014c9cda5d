// Model of the AVL tree (reclaim/occtree.hpp, impl/occtree_node.hpp, occtree_repair.hpp): threads
// search while others insert, erase and rotate. Guards protect all, and nothing is freed before the
// end: what the tree asks of slots is not covered.
//
// Invariants: insert and erase of a key succeed in turn; a key that no thread erases is found; a
// node is retired once, and not while it is reachable; at rest the tree is a strict AVL tree, as
// its own check() demands. Bound: 3 threads, 2 operations each on 4 keys around one that stays, or
// 6 searches; random.
#include <memory>
#include <mutex>
#include <optional>
#include <thread>  // before Relacy's macros

#include "model_new.h"
#include "nearmalloc/reclaim/occtree.hpp"
#include "runner.h"

namespace near::reclaim::impl {
void pause() noexcept { rl::yield(1, debug_info(Place::current())); }
uint32_t fork_count() noexcept { return 0; }
}  // namespace near::reclaim::impl

namespace near::model {
namespace {

Witness inserts("successful inserts");
Witness erasures("successful erasures");
Witness updates("values replaced");
Witness retirements("nodes retired");
Witness rotations("trees with another root than at first");

// Takes the place of waiting_lock, whose protocol is that of the model mutex.
class Lock {
 public:
  bool try_lock() { return !is_held_.exchange(true, kAcquire); }
  void lock() {
    while (!try_lock()) rl::yield(1, debug_info(Place::current()));
  }
  void unlock() { is_held_.store(false, kRelease); }

 private:
  Atomic<bool> is_held_{false};
};

// Keeps what is retired until the end.
template <class Node>
struct Retired {
  void keep(Node* node) {
    for (uint32_t i = 0; i < count; i++) expect(nodes[i] != node, "a node is retired twice");
    expect(count < kRoom, "more is retired than was made");
    nodes[count++] = node;
    retirements.note();
  }
  void free_all() {
    for (uint32_t i = 0; i < count; i++) delete nodes[i];
  }

  static constexpr uint32_t kRoom = 12;
  Node* nodes[kRoom];
  uint32_t count = 0;
};

struct Home {
  using Node = reclaim::impl::occ_node<uint32_t, uint32_t, Lock>;
  struct guard_type {
    static constexpr bool protects_all = true;
    void hold(unsigned, const Node*) {}
    void retire(Node* node) { home.retired.keep(node); }
    Home& home;
  };
  Retired<Node> retired;
};

using Tree = reclaim::impl::guarded_occtree<uint32_t, uint32_t, Home, Lock>;

constexpr uint32_t kStays = 3;
constexpr uint32_t kKeys = 6;  // 1 to 5
constexpr uint32_t kAdded = 100;
constexpr uint32_t stamp(uint32_t key, uint32_t turn = 0) { return key + 100 * (turn + 1); }
constexpr bool is_stamp(uint32_t key, uint32_t value) { return value % 100 == key; }

// What the suites share. At first the tree has 2, and the key that stays below it: another key on
// that side makes it rotate.
class Growing {
 public:
  void before() {
    tree_.emplace(home_);
    Home::guard_type guard{home_};
    for (const uint32_t key : {2u, kStays}) present_[key] += tree_->insert(guard, key, stamp(key));
  }

  void after() {
    int there[kKeys] = {};
    uint32_t last = 0;
    tree_->for_each([&](uint32_t key, uint32_t value) {
      expect(key > last, "keys do not ascend");
      last = key;
      there[key]++;
      expect(is_stamp(key, value), "a value of another key");
    });
    for (uint32_t key = 1; key < kKeys; key++) {
      expect(there[key] == present_[key], "a key differs from what threads did");
    }
    expect(tree_->check(), "the tree is inconsistent");
    Home::guard_type guard{home_};
    if (!tree_->contains(guard, 2) || there[4] + there[5] > 0) rotations.note();
    tree_.reset();
    home_.retired.free_all();
  }

 protected:
  void insert(uint32_t key, uint32_t turn = 0) {
    Home::guard_type guard{home_};
    if (!tree_->insert(guard, key, stamp(key, turn))) return;
    present_[key]++;
    inserts.note();
  }
  void erase(uint32_t key) {
    Home::guard_type guard{home_};
    if (!tree_->erase(guard, key)) return;
    present_[key]--;
    erasures.note();
  }
  // Adds to the value of the key, or inserts it: then true.
  bool add(uint32_t key) {
    Home::guard_type guard{home_};
    const auto done = tree_->update(guard, key, [&](const std::optional<uint32_t>& there) {
      return std::optional<uint32_t>(there ? *there + kAdded : stamp(key));
    });
    expect(done.changed, "an update that always changes changed nothing");
    if (done.before) return updates.note(), false;
    present_[key]++;
    return true;
  }
  uint32_t take(uint32_t key) {
    Home::guard_type guard{home_};
    const auto taken = tree_->take(guard, key);
    if (!taken) return 0;
    present_[key]--;
    erasures.note();
    return *taken;
  }
  std::optional<uint32_t> find(uint32_t key) {
    Home::guard_type guard{home_};
    const auto value = tree_->find(guard, key);
    expect(value.has_value() || key != kStays, "the key that stays was not found");
    if (value) expect(is_stamp(key, *value), "a value of another key");
    return value;
  }

 private:
  Home home_;
  std::optional<Tree> tree_;  // Relacy gives memory only from before() to after()
  int present_[kKeys] = {};
};

class Mixed : public rl::test_suite<Mixed, 3>, public Growing {
 public:
  void before() { Growing::before(); }
  void after() { Growing::after(); }
  void thread(unsigned) {
    for (int i = 0; i < 2; i++) {
      const uint32_t key = kOthers[choose(4)];
      switch (choose(3)) {
        case 0:
          insert(key);
          break;
        case 1:
          erase(key);
          break;
        default:
          find(choose(4) > 0 ? kStays : key);
      }
    }
  }

 private:
  static constexpr uint32_t kOthers[] = {1, 2, 4, 5};
};

// Two threads search all the time while one makes the tree rotate.
class Rotating : public rl::test_suite<Rotating, 3>, public Growing {
 public:
  void before() { Growing::before(); }
  void after() { Growing::after(); }
  void thread(unsigned index) {
    if (index == 0) {
      insert(4);
      erase(2);
    } else {
      for (int i = 0; i < 6; i++) find(kStays);
    }
  }
};

// A key whose node stays as a routing node is erased and comes back with another value.
class Reviving : public rl::test_suite<Reviving, 3>, public Growing {
 public:
  void before() {
    Growing::before();
    insert(1);  // 2 has two children
  }
  void after() { Growing::after(); }
  void thread(unsigned index) {
    if (index == 0) {
      erase(2);
      insert(2, 1);
      return;
    }
    bool was_absent = false;
    for (int i = 0; i < 5; i++) {
      const auto value = find(2);
      expect(!was_absent || !value || *value == stamp(2, 1), "a value that was erased before");
      was_absent = was_absent || !value;
    }
  }
};

// Two threads add to the value of one key, or insert it, while a third makes the tree rotate, or
// takes the key.
class Updating : public rl::test_suite<Updating, 3>, public Growing {
 public:
  void before() {
    Growing::before();
    if (has_two_children_) insert(1);  // then the node stays when it is taken, else it is unlinked
  }
  void after() {
    const uint32_t sum = taken_ + find(2).value_or(0);
    expect(sum == stamp(2) * (1 + inserted_) + kAdded * added_,
           "an update was lost, or came twice");
    Growing::after();
  }
  void thread(unsigned index) {
    for (int i = 0; i < 2; i++) {
      if (index == 2) {
        choose(2) == 0 ? insert(4 + i) : void(taken_ += take(2));
      } else if (add(2)) {
        inserted_++;
      } else {
        added_++;
      }
    }
  }

 private:
  const bool has_two_children_ = choose(2) == 0;
  uint32_t added_ = 0;
  uint32_t inserted_ = 0;
  uint32_t taken_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Rotating>("search while the tree rotates", Random{50'000}),
    explore<Reviving>("a key comes back", Random{50'000}),
    explore<Updating>("updates", Random{50'000}),
    explore<Mixed>("search, insert, erase", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"a link is not released", "occtree_node.hpp", "::set_child", kRelease, kRelaxed},
    {"a link is not acquired", "occtree_node.hpp", "::child", kAcquire, kRelaxed},
    {"a version is not released", "occtree_node.hpp", "::set_version", kRelease, kRelaxed},
    {"a version is not acquired", "occtree_node.hpp", "::version", kAcquire, kRelaxed},
    {"a value is not acquired", "occtree_node.hpp", "::is_present", kAcquire, kRelaxed},
    {"a value is not released", "occtree_node.hpp", "::set_value", kRelease, kRelaxed},
};

}  // namespace near::model
