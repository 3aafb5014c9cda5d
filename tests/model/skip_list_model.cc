// Model of the skip list (reclaim/impl/skip_walk.hpp), with guards that protect all, and with the
// slots of hazard.hpp: there a node is freed once it was retired and no slot holds it. Fences are
// of both kinds. Mirrors put, erase and look_up of skip_list.hpp; a value is a number here.
//
// Invariants: insert and erase of a key succeed in turn; a key that no thread erases is found; a
// thread that finds a node sees what its maker wrote; each node that was inserted and erased is
// retired once, by the inserter or the eraser, after it is unlinked from both levels, and is not
// used after it was freed. What a thread inserted it finds, unless it was erased. At rest no
// removed node is linked.
// Bound: 3 threads, 2 operations each on keys 1 and 2, of two levels; key 3 stays; random.
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "nearmalloc/reclaim/impl/skip_walk.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness inserts("successful inserts");
Witness erasures("successful erasures");
Witness replaced("values replaced");
Witness by_inserter("nodes retired by the thread that inserted them");
Witness by_eraser("nodes retired by the thread that erased them");
Witness helped("nodes without a value that an insertion met");
Witness nodes_buried("nodes freed because no slot held them");

constexpr uint32_t kKeys = 3;
constexpr uint32_t kStays = 3;
constexpr uint32_t kNodes = 8;
constexpr unsigned kLevels = 2;

struct Node {
  bool precedes(uint32_t probe) const { return key < probe; }
  bool matches(uint32_t probe) const { return key == probe; }
  uint32_t probe() const { return key; }
  list_link* links() { return tower; }
  size_t bytes() const { return 0; }

  list_link tower[kLevels] = {0, 0};
  Atomic<uint32_t> value{0};  // 0: none
  Atomic<uint32_t> holders{2};
  Plain<uint32_t> height;
  Plain<uint32_t> key;
  Plain<uint32_t> maker;
  Object object;
  bool is_buried = false;  // for a thread that waits; it orders nothing
};

struct Record {
  HazardWords hazards;
  Plain<Record*> next;
  SlotRow row;
  Node* nodes[kNodes] = {};  // retired
  uint32_t retired = 0;
  uint32_t waiting = 0;
};

// Frees nothing while threads run, but shows a node that is retired twice.
struct EpochGuard {
  static constexpr bool protects_all = true;
  EpochGuard(Record& its, const Atomic<Record*>&, bool) : record(its) {}
  void retire(Node* node, size_t) {
    node->object.destroy();
    record.retired++;
  }
  Record& record;
};

// At the end of an operation, frees what no slot holds.
struct SlotGuard {
  static constexpr bool protects_all = false;
  SlotGuard(Record& its, const Atomic<Record*>& all, bool is_asymmetric)
      : record(its), records(all), asymmetric(is_asymmetric) {}
  ~SlotGuard() {
    record.hazards.give_back(record.row);
    if (record.waiting == 0) return;
    heavy_fence(asymmetric);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.waiting; i++) {
      Node& node = *record.nodes[i];
      if (is_held(&node)) {
        record.nodes[kept++] = &node;
        continue;
      }
      // A race with any thread that still reads the node; its links no longer tell that it is
      // removed.
      for (list_link& each : node.tower) each.store(0, kRelaxed);
      node.object.destroy();
      node.key = 0;
      node.maker = 0;
      nodes_buried.note();
      node.is_buried = true;
    }
    record.waiting = kept;
  }
  // A thread may be delayed, once, until another one frees the node.
  void hold(unsigned slot, const Node* node) {
    if (may_wait && node != nullptr && choose(4) == 0) {
      for (int i = 0; i < 150 && !node->is_buried; i++) pause();
      may_wait = false;
    }
    record.hazards.hold(record.row, slot, node, asymmetric);
  }
  void retire(Node* node, size_t) {
    record.retired++;
    record.nodes[record.waiting++] = node;
  }
  bool is_held(const Node* node) const {
    bool found = false;
    collect_hazards(records, [&](const void* held) { found = found || held == node; });
    return found;
  }
  Record& record;
  const Atomic<Record*>& records;
  const bool asymmetric;
  bool may_wait = false;
};

template <class Guard>
class SkipList : public FencedSuite<SkipList<Guard>> {
 public:
  SkipList() : asymmetric_(choose(2) == 1) {}

  void before() {
    for (Record& each : records_) add_record(head_of_records_, each);
    for (list_link& each : head_) each.store(0, kRelaxed);
    Guard guard(records_[0], head_of_records_, asymmetric_);
    if constexpr (!Guard::protects_all) guard.may_wait = true;
    put(guard, kStays, make(nodes_[0], kStays, 0, 2));
    put(guard, 1, make(nodes_[1], 1, 0, 1 + choose(2)));
  }

  void thread(unsigned index) {
    for (uint32_t i = 0; i < 2; i++) operate(index, nodes_[2 + 2 * index + i]);
  }

  void after() {
    uint32_t retired = 0;
    for (Record& each : records_) retired += each.retired;
    for (unsigned level = 0; level < kLevels; level++) check_level(level);
    for (uint32_t key = 1; key <= kKeys; key++) {
      expect(static_cast<int>(there_[key]) == present_[key], "a key differs from what threads did");
    }
    expect(retired == erased_, "a node was retired twice, or never");
  }

 private:
  void operate(unsigned index, Node& spare) {
    Guard guard(records_[index], head_of_records_, asymmetric_);
    if constexpr (!Guard::protects_all) guard.may_wait = true;
    const uint32_t key = 1 + choose(2);
    switch (choose(4)) {
      case 0:
      case 1: {
        const int erased_before = erased_of_[key];
        put(guard, key, make(spare, key, index, choose(4) == 0 ? 1 : 2));
        const bool is_there = look(guard, key);
        expect(is_there || erased_of_[key] > erased_before, "what was just inserted is not found");
        return;
      }
      case 2:
        return erase(guard, key);
      default:
        look(guard, choose(2) == 0 ? kStays : key);
    }
  }

  static Node& make(Node& node, uint32_t key, unsigned index, uint32_t height) {
    node.key = key;
    node.maker = index + 1;
    node.height = height;
    node.object.make();
    return node;
  }

  // upsert
  void put(Guard& guard, uint32_t key, Node& fresh) {
    skip_walk<Node, Guard> walk(guard, head_);
    for (;;) {
      if (!walk.seek(key, kLevels, 0)) {
        fresh.value.store(1, kRelaxed);
        fresh.links()[0].store(word_of(walk.node()), kRelaxed);
        if (walk.link(&fresh)) break;
        continue;
      }
      Node& there = *walk.node();
      uint32_t old = there.value.load(kAcquire);
      if (old == 0) {
        helped.note();
        skip_remove(there);
      } else if (there.value.compare_exchange_strong(old, old + 1, kAcqRel, kRelaxed)) {
        return replaced.note();
      }
    }
    present_[key]++;
    inserts.note();
    const uint32_t before = guard.record.retired;
    if (!mutated("the inserter lets go before it links the second level")) {
      skip_raise(guard, head_, kLevels, fresh);
      let_go(guard, fresh);
    } else {
      let_go(guard, fresh);
      skip_raise(guard, head_, kLevels, fresh);
    }
    if (guard.record.retired > before) by_inserter.note();
  }

  void let_go(Guard& guard, Node& node) {
    if (mutated("the last to let go does not walk past the node")) {
      if (node.holders.fetch_sub(1, kAcqRel) == 1) guard.retire(&node, 0);
      return;
    }
    skip_let_go(guard, head_, kLevels, node);
  }

  void erase(Guard& guard, uint32_t key) {
    skip_walk<Node, Guard> walk(guard, head_);
    if (!walk.seek(key, kLevels, 0)) return;
    Node& there = *walk.node();
    if (there.value.exchange(0, kAcqRel) == 0) return;
    present_[key]--;
    erased_++;
    erased_of_[key]++;
    erasures.note();
    const uint32_t before = guard.record.retired;
    if (mutated("bits are set from the bottom up")) {
      for (unsigned level = 0; level < there.height; level++) set_bit(there.links()[level]);
    } else {
      skip_remove(there);
    }
    let_go(guard, there);
    if (guard.record.retired > before) by_eraser.note();
  }

  static void set_bit(list_link& link) {
    uintptr_t next = link.load(kAcquire);
    while ((next & kRemovedBit) == 0 &&
           !link.compare_exchange_weak(next, next | kRemovedBit, kAcqRel, kAcquire)) {
    }
  }

  bool look(Guard& guard, uint32_t key) {
    Node* found = nullptr;
    if constexpr (Guard::protects_all) {
      found = skip_find<Node>(head_, kLevels, key);
      if (found != nullptr && !found->matches(key)) found = nullptr;
    } else {
      skip_walk<Node, Guard> walk(guard, head_);
      if (walk.seek(key, kLevels, 0)) found = walk.node();
    }
    const bool is_there = found != nullptr && found->value.load(kAcquire) != 0;
    expect(is_there || key != kStays, "the key that stays was not found");
    if (found == nullptr) return false;
    expect(found->maker <= 3, "a node without a maker");
    if constexpr (!Guard::protects_all) found->object.touch();
    expect(found->key == key, "another key was found");
    return is_there;
  }

  void check_level(unsigned level) {
    uint32_t last = 0;
    for (Node* node = node_of<Node>(head_[level].load(kRelaxed)); node != nullptr;) {
      const uintptr_t next = node->links()[level].load(kRelaxed);
      expect((next & kRemovedBit) == 0, "a removed node is linked");
      expect(node->key > last, "keys do not ascend");
      last = node->key;
      if (level == 0) there_[last]++;
      node = node_of<Node>(next);
    }
  }

  const bool asymmetric_;
  Atomic<Record*> head_of_records_{nullptr};
  Record records_[3];
  list_link head_[kLevels];
  Node nodes_[kNodes];
  uint32_t there_[kKeys + 1] = {};
  int present_[kKeys + 1] = {};
  int erased_of_[kKeys + 1] = {};
  uint32_t erased_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<SkipList<EpochGuard>>("guards that protect all", Random{400'000}),
    explore<SkipList<SlotGuard>>("slots", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a node is not released", "skip_walk.hpp", "::link", kAcqRel, kAcquire},
    {"a link is not acquired", "skip_walk.hpp", "settle", kAcquire, kRelaxed},
    {"the first link is not acquired", "skip_walk.hpp", "try_seek", kAcquire, kRelaxed},
    {"an unlinking does not release", "skip_walk.hpp", "settle", kRelease, kRelaxed},
    {"a slot is written without a fence", "hazard.hpp", "::hold(", kSeqCst, kRelaxed},
    {"a search does not acquire a link", "skip_walk.hpp", "skip_find", kAcquire, kRelaxed},
    {"bits are not released", "skip_walk.hpp", "skip_remove", kAcqRel, kAcquire},
    {"letting go does not release", "skip_walk.hpp", "skip_let_go", kRelease, kRelaxed},
    {"the last to let go does not acquire", "skip_walk.hpp", "skip_let_go", kAcquire, kRelaxed},
    {"the inserter lets go before it links the second level"},
    {"the last to let go does not walk past the node"},
    {"bits are set from the bottom up"},
};

}  // namespace near::model
