// Model of the ordered list (reclaim/impl/ordered_list.hpp) under list_set, with guards that
// protect all, and with the slots of hazard.hpp: there a node is freed once it was unlinked and no
// slot holds it, and the thread that freed it inserts it again, at any place. Fences are of both
// kinds.
//
// Invariants: insert and erase of a key succeed in turn; a key that no thread erases is found; a
// thread that finds a node sees what its maker wrote; a node is retired once, after it was
// unlinked, and is not used after it was freed.
// A last suite has fields that are atomic, so that a node which is used again too early makes a
// wrong list (ABA), not a race.
// Bound: 3 threads, 2 operations each on keys 1 to 3, of which 3 stays; random.
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/ordered_list.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness removed_by_others("removed nodes that another thread unlinked");
Witness nodes_buried("nodes freed because no slot held them");
Witness nodes_reused("nodes inserted again after they were freed");
Witness inserts("successful inserts");
Witness replaced("nodes replaced by others with their key");
Witness erasures("successful erasures");

constexpr uint32_t kKeys = 3;
constexpr uint32_t kStays = 3;
constexpr uint32_t kNodes = 8;

// A field whose memory may be read and written at any time: what the list then does with a node
// that was used again shows as a wrong list, not as a race.
template <class T>
class Stable {
 public:
  Stable& operator=(T value) {
    word_.store(value, kRelaxed);
    return *this;
  }
  operator T() const { return word_.load(kRelaxed); }

 private:
  Atomic<T> word_{0};
};

template <template <class> class Field>
struct NodeOf {
  using removable_type = NodeOf;
  static constexpr bool kIsStable = std::is_same_v<Field<int>, Stable<int>>;

  bool precedes(uint32_t probe) const { return key < probe; }
  bool matches(uint32_t probe) const { return key == probe; }
  uint32_t probe() const { return key; }
  void make(uint32_t its_key, uint32_t thread) {
    key = its_key;
    maker = thread;
    if constexpr (!kIsStable) object.make();
  }

  list_link next{0};
  Field<uint32_t> key;
  Field<uint32_t> maker;
  Object object;
};

template <class Node>
struct RecordOf {
  HazardWords hazards;
  Plain<RecordOf*> next;
  SlotRow row;
  uint32_t retired = 0;
  Node* nodes[kNodes] = {};  // retired, not freed
  uint32_t waiting = 0;
  Node* spares[kNodes] = {};  // freed
  uint32_t spare_count = 0;
};

// Counts; nothing is freed while threads run.
struct EpochGuard {
  using Node = NodeOf<Plain>;
  using Record = RecordOf<Node>;
  static constexpr bool protects_all = true;
  EpochGuard(Record& its, const Atomic<Record*>&, bool) : record(its) {}
  void retire(Node* node) {
    node->object.destroy();  // shows a second retirement; readers touch only keys
    record.retired++;
  }
  Record& record;
};

// At the end of an operation, frees what no slot holds.
template <template <class> class Field>
struct SlotGuard {
  using Node = NodeOf<Field>;
  using Record = RecordOf<Node>;
  static constexpr bool protects_all = false;
  SlotGuard(Record& its, const Atomic<Record*>& all, bool is_asymmetric)
      : record(its), records(all), asymmetric(is_asymmetric) {}
  ~SlotGuard() {
    record.hazards.give_back(record.row);
    if (record.waiting == 0) return;
    heavy_fence(asymmetric);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < record.waiting; i++) {
      Node* const node = record.nodes[i];
      if (is_held(node) && !mutated(kReused)) {
        record.nodes[kept++] = node;
      } else {
        bury(*node);
        record.spares[record.spare_count++] = node;
      }
    }
    record.waiting = kept;
  }
  void hold(unsigned slot, const Node* node) {
    record.hazards.hold(record.row, slot, node, asymmetric);
  }
  void retire(Node* node) {
    record.retired++;
    record.nodes[record.waiting++] = node;
  }
  bool is_held(const Node* node) const {
    bool found = false;
    collect_hazards(records, [&](const void* held) { found = found || held == node; });
    return found;
  }
  // A race with any thread that still reads the node; its link no longer tells that it is removed.
  static void bury(Node& node) {
    if constexpr (!Node::kIsStable) {
      node.object.destroy();
      node.key = 0;
      node.maker = 0;
      node.next.store(0, kRelaxed);
    }
    nodes_buried.note();
  }

  static constexpr const char* kReused = Node::kIsStable
                                             ? "a node of stable memory is used again while held"
                                             : "a node is used again while a slot holds it";
  Record& record;
  const Atomic<Record*>& records;
  const bool asymmetric;
};

template <class Guard>
class List : public FencedSuite<List<Guard>> {
 public:
  using Node = typename Guard::Node;
  using Record = typename Guard::Record;

  List() : asymmetric_(choose(2) == 1) {}

  void before() {
    for (Record& each : records_) add_record(head_of_records_, each);
    // Key 3 stays; 1 is there, and threads insert 2 between them.
    nodes_[0].make(kStays, 0);
    nodes_[1].make(1, 0);
    nodes_[0].next.store(0, kRelaxed);
    nodes_[1].next.store(word_of(&nodes_[0]), kRelaxed);
    head_.store(word_of(&nodes_[1]), kRelaxed);
    present_[1] = 1;
  }

  void thread(unsigned index) {
    for (uint32_t i = 0; i < 2; i++) operate(index, i);
  }

  void after() {
    uint32_t there[kKeys + 1] = {};
    uint32_t last = 0;
    bool was_removed = false;
    list_each<Node>(head_, [&](Node* node, bool removed) {
      const bool replaces = was_removed && node->key == last;
      expect(node->key > last || replaces, "keys do not ascend");
      last = node->key;
      was_removed = removed;
      there[last] += removed ? 0 : 1;
    });
    int sum = 0;
    for (Record& each : records_) sum += static_cast<int>(each.retired);
    expect(there[kStays] == 1, "the key that stays is gone");
    expect(static_cast<int>(there[1]) == present_[1], "key 1 differs from what threads did");
    expect(static_cast<int>(there[2]) == present_[2], "key 2 differs from what threads did");
    expect(sum == erased_ - removed_left(), "a node was retired twice, or never");
  }

 private:
  int removed_left() const {
    int left = 0;
    list_each<Node>(head_, [&](Node*, bool removed) { left += removed ? 1 : 0; });
    return left;
  }

  void operate(unsigned index, uint32_t turn) {
    Guard guard(records_[index], head_of_records_, asymmetric_);
    const uint32_t key = 1 + choose(2);
    switch (choose(4)) {
      case 3:
        return put(guard, choose(2) == 0 ? kStays : key, index, turn);
      case 0:
        return insert(guard, key, index, turn);
      case 1:
        return erase(guard, key);
      default:
        return look(guard, choose(2) == 0 ? kStays : key);
    }
  }

  // A node of the thread, which it freed before if there is one.
  Node& make(Record& mine, uint32_t key, unsigned index, uint32_t turn) {
    const bool is_reused = mine.spare_count > 0;
    Node& fresh = is_reused ? *mine.spares[--mine.spare_count] : nodes_[2 + 2 * index + turn];
    if (is_reused) nodes_reused.note();
    fresh.make(key, index + 1);
    return fresh;
  }

  void insert(Guard& guard, uint32_t key, unsigned index, uint32_t turn) {
    Node& fresh = make(guard.record, key, index, turn);
    list_walk<Node, Guard> walk(guard, head_);
    do {
      if (walk.seek(key)) return;
    } while (!walk.insert(&fresh));
    present_[key]++;
    inserts.note();
  }

  // list_put
  void put(Guard& guard, uint32_t key, unsigned index, uint32_t turn) {
    Node& fresh = make(guard.record, key, index, turn);
    list_walk<Node, Guard> walk(guard, head_);
    for (;;) {
      if (!walk.seek(key)) {
        if (!walk.insert(&fresh)) continue;
        present_[key]++;
        return;
      }
      if (!walk.replace(&fresh)) continue;
      if (!walk.unlink()) walk.seek(key);
      erased_++;
      replaced.note();
      return;
    }
  }

  void erase(Guard& guard, uint32_t key) {
    const uint32_t before = guard.record.retired;
    if (!list_erase<Node>(guard, head_, key)) return;
    if (guard.record.retired == before) removed_by_others.note();
    present_[key]--;
    erased_++;
    erasures.note();
  }

  void look(Guard& guard, uint32_t key) {
    const Node* found = list_find<Node>(guard, head_, key);
    expect(found != nullptr || key != kStays, "the key that stays was not found");
    if (found == nullptr) return;
    expect(found->maker <= 3, "a node without a maker");
    if constexpr (!Guard::protects_all && !Node::kIsStable) found->object.touch();
    expect(found->key == key, "another key was found");
  }

  const bool asymmetric_;
  Atomic<Record*> head_of_records_{nullptr};
  Record records_[3];
  list_link head_{0};
  Node nodes_[kNodes];
  int present_[kKeys + 1] = {};
  int erased_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<List<EpochGuard>>("guards that protect all", Random{200'000}),
    explore<List<SlotGuard<Plain>>>("slots", Random{300'000}),
    explore<List<SlotGuard<Stable>>>("slots, stable memory", Random{100'000}),
};

const std::vector<Mutation> kMutations = {
    {"a node is not released", "ordered_list.hpp", "::insert", kRelease, kRelaxed},
    {"a node that replaces another is not released", "ordered_list.hpp", "::replace", kRelease,
     kRelaxed},
    {"the head is not acquired", "ordered_list.hpp", "try_seek", kAcquire, kRelaxed},
    {"a link is not acquired", "ordered_list.hpp", "settle", kAcquire, kRelaxed},
    {"an unlinking does not release", "ordered_list.hpp", "::unlink", kRelease, kRelaxed},
    {"a search does not acquire the head", "ordered_list.hpp", "list_find", kAcquire, kRelaxed,
     "head.load"},
    {"a search does not acquire a link", "ordered_list.hpp", "list_find", kAcquire, kRelaxed,
     "node->next"},
    {"a slot is written without a fence", "hazard.hpp", "::hold(", kSeqCst, kRelaxed},
    {"a node is used again while a slot holds it"},
    {"a node of stable memory is used again while held"},
};

}  // namespace near::model
