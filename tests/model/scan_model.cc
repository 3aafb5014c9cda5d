// Model of a scan of the (a,b)-tree (reclaim/impl/abtree_scan.hpp) on nodes of abtree_node.hpp and
// updates of scx.hpp: a root with two parents of a leaf each; above the left parent is one more
// node. A thread replaces the left leaf, then the right one, again and again. The left parent is
// replaced, too: by another thread, or, where nodes do not stay, by the same one, which uses its
// memory again if no slot holds it. A third thread scans. In one suite there is one thread: any
// number of changes happen between any two steps of a scan down the tree.
//
// Invariants: a scan never sees the right leaf newer than the left one, nor the left one newer than
// the right one by more than one change; and it sees all changes that ended before it began.
// Bound: 2 or 3 threads; 4 or 6 changes of leaves, 1 or 3 of parents, 1 scan; leaves are not used
// again. With one thread: 4 changes of leaves, 2 of parents; random.
#include <thread>  // before Relacy's macros

#include "model_new.h"
#include "nearmalloc/reclaim/impl/abtree_scan.hpp"
#include "nearmalloc/reclaim/impl/scx.hpp"
#include "runner.h"

namespace near::model {
namespace {

Witness scans_repeated("scans that began again");
Witness scans_between("scans that saw one change more on the left");
Witness parents_reused("parents whose memory was used again");

constexpr int kLeft = 0;
constexpr int kRight = 10;

// What a scan asks of a tree. `Stays`: nodes stay valid under a guard.
template <bool Stays>
struct LittleTree {
  struct guard_type {
    static constexpr bool protects_all = Stays;
  };
  using Node = reclaim::impl::AbtreeNode<int, int, 2>;
  using Place = reclaim::impl::AbtreePlace<Node>;
  using Table = reclaim::impl::ScxTable<Node, 0>;

  // Holds the parent of a leaf in the slot, if nodes do not stay.
  template <class Until>
  bool try_descend(guard_type&, int key, Until& until, Place& place) const {
    place.parent = &entry_;
    place.index = 0;
    for (;;) {
      if (meanwhile_ != nullptr) meanwhile_(world_);
      Node* child = place.parent->child(place.index);
      if (!Stays && child != &root_ && child != &middle_ && !child->is_leaf()) {
        slot_.exchange(child, kSeqCst);
        if (place.parent->child(place.index) != child) return false;
      }
      place.node = child;
      if (until(place) || child->is_leaf()) return true;
      place.parent = child;
      place.index = child->size > 1 ? child->child_for(key) : 0;
    }
  }
  void help(guard_type&, uint64_t tag) const {
    scans_repeated.note();
    scx_.help(tag, [](unsigned, Node*) {});
  }

  mutable Node entry_{Node::Kind::inner, false, 1};
  mutable Node root_{Node::Kind::inner, false, 2};
  mutable Node middle_{Node::Kind::inner, false, 1};  // above the left parent
  mutable Table scx_;
  mutable Atomic<Node*> slot_{nullptr};
  void (*meanwhile_)(void* world) = nullptr;  // called before each child is read
  void* world_ = nullptr;
};

// The tree, its changes, and the scan.
template <bool Stays>
class World {
 public:
  using Tree = LittleTree<Stays>;

  static constexpr int kChanges = Stays ? 2 : 3;

  void begin() {
    tree_.entry_.set_word(0, Node::word_of(&tree_.root_));
    tree_.root_.keys[0] = kRight;
    tree_.root_.set_word(0, Node::word_of(&tree_.middle_));
    tree_.root_.set_word(1, Node::word_of(&parents_[1]));
    tree_.middle_.set_word(0, Node::word_of(&parents_[0]));
    for (unsigned side : {0u, 1u}) parents_[side].set_word(0, Node::word_of(make_leaf(side, 0)));
  }

  void replace_leaf(unsigned side, int version) {
    Node* const leaf = make_leaf(side, version);
    for (bool done = false; !done;) {
      Update update;
      Node* const parent = side == 0 ? tree_.middle_.child(0) : tree_.root_.child(1);
      done = link(parent, update) && swing(update, 0, parent->child(0), leaf);
      if (!done) rl::yield(1, debug_info(Place::current()));
    }
  }

  void replace_first_parent() { replace_parent(parents_[0], parents_[2]); }

  // Puts the other memory in the place of the left parent, as a new node, unless it is held.
  void replace_left_parent() {
    Parent& now = tree_.middle_.child(0) == &parents_[0] ? parents_[0] : parents_[2];
    Parent& next = &now == &parents_[0] ? parents_[2] : parents_[0];
    if (tree_.slot_.load(kSeqCst) == &next) return;
    if (next.is_finalized()) parents_reused.note();
    next.marked.store(0, kRelaxed);
    next.info.store(0, kRelaxed);
    replace_parent(now, next);
  }

  // `before`: how many changes had ended when it began.
  void scan(int before) {
    typename Tree::guard_type guard;
    reclaim::impl::AbtreeScan<Tree> scan(tree_, guard);
    const auto& entries = scan.run(kLeft, kRight + 1);
    expect(entries.size() == 2, "a leaf was missed");
    const int left = entries[0].second;
    const int right = entries[1].second;
    expect(right >= before, "a change that had ended was missed");
    expect(left == right || left == right + 1, "the two leaves were never there together");
    if (left != right) scans_between.note();
  }

  Tree tree_;

 private:
  using Node = typename Tree::Node;
  using Update = typename Tree::Table::Update;

  Node* make_leaf(unsigned side, int version) {
    Node* const leaf = &leaves_[side][version];
    leaf->keys[0] = side == 0 ? kLeft : kRight;
    leaf->set_word(0, Node::word_of(version));
    return leaf;
  }

  bool link(Node* node, Update& update) {
    const uint64_t info = node->linked_info();
    if (tree_.scx_.is_in_progress(info)) {
      tree_.scx_.help(info, [](unsigned, Node*) {});
      return false;
    }
    if (node->is_finalized()) return false;
    update.freeze(node, info);
    return true;
  }

  bool swing(Update& update, unsigned index, Node* old, Node* fresh) {
    update.index = index;
    update.old = old;
    update.replacement = fresh;
    return tree_.scx_.scx(update);
  }

  void replace_parent(Node& from, Node& to) {
    for (bool done = false; !done;) {
      Update update;
      done = link(&tree_.middle_, update) && link(&from, update);
      if (done) to.set_word(0, from.word(0));
      done = done && swing(update, 0, &from, &to);
      if (!done) rl::yield(1, debug_info(Place::current()));
    }
  }

  struct Parent : Node {
    Parent() : Node(Node::Kind::inner, false, 1) {}
  };
  struct Leaf : Node {
    Leaf() : Node(Node::Kind::leaf, false, 1) {}
  };

  Parent parents_[3];  // left, right, and the left one's other memory
  Leaf leaves_[2][kChanges + 1];
};

template <bool Stays>
class Scans : public rl::test_suite<Scans<Stays>, 3> {
 public:
  void before() { world_.begin(); }
  void thread(unsigned index) {
    if (index == 0) {
      for (int version = 1; version <= World<Stays>::kChanges; version++) {
        world_.replace_leaf(0, version);
        if (!Stays) world_.replace_left_parent();
        world_.replace_leaf(1, version);
        changes_.store(version, kRelease);
      }
    } else if (index == 1) {
      if (Stays) world_.replace_first_parent();
    } else {
      world_.scan(changes_.load(kAcquire));
    }
  }

 private:
  World<Stays> world_;
  Atomic<int> changes_{0};
};

// The changes happen between the steps of the scan, in the thread that scans. (Relacy needs two.)
class Interrupted : public rl::test_suite<Interrupted, 2> {
 public:
  void before() {
    world_.begin();
    world_.tree_.meanwhile_ = [](void* self) { static_cast<Interrupted*>(self)->go_on(); };
    world_.tree_.world_ = this;
  }
  void thread(unsigned index) {
    if (index == 0) world_.scan(0);
  }

 private:
  void go_on() {
    while (next_ < kSteps && choose(4) == 0) {
      const int step = next_++;
      if (step == 0) world_.replace_leaf(0, 1);
      if (step == 1) world_.replace_leaf(1, 1);
      if (step == 2) replace_left_side();
      if (step == 3) world_.replace_leaf(1, 2);
    }
  }

  // Unless it is held, the parent is then at the same address, without the info that it had.
  void replace_left_side() {
    world_.replace_leaf(0, 2);
    for (int i = 0; i < 2; i++) world_.replace_left_parent();
  }

  static constexpr int kSteps = 4;
  World<false> world_;
  int next_ = 0;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Scans<true>>("nodes stay", Random{60'000}),
    explore<Scans<false>>("nodes are used again", Random{120'000}),
    explore<Interrupted>("interrupted", Random{20'000}),
};

const std::vector<Mutation> kMutations = {
    {"a freeze orders nothing", "abtree_node.hpp", "::freeze", kAcqRel, kRelaxed},
    {"a child is not acquired", "abtree_node.hpp", "::word", kAcquire, kRelaxed},
    {"info is not acquired", "abtree_node.hpp", "::linked_info", kAcquire, kRelaxed},
};

}  // namespace near::model
