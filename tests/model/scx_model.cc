// Model of reclaim/impl/scx.hpp on nodes of reclaim/impl/abtree_node.hpp: two threads replace a
// leaf, while a third replaces the leaf's parent. In a second suite one thread replaces a parent,
// one replaces the node above, retires it and looks at slots, and one comes to the parent and
// helps.
//
// Invariants: each update that reports success was carried out once, and no other was; no change is
// lost with a node that is cut off; a thread that finds a node sees what its maker wrote; a thread
// that helps touches no node that was freed.
// Bound: 3 threads, 2 attempts each, where nodes are not freed; 3 threads, 1 or 2 attempts each, 1
// node that is freed; `link` is a mirror of abtree::link.
#include <thread>  // before Relacy's macros

#include "nearmalloc/reclaim/impl/abtree_node.hpp"
#include "nearmalloc/reclaim/impl/scx.hpp"
#include "runner.h"

namespace near::model {
namespace {

using reclaim::impl::AbtreeNode;

struct ModelNode : AbtreeNode<int, int, 1> {
  using Base = AbtreeNode<int, int, 1>;
  ModelNode() : Base(Kind::inner, false, 1) {}
  ModelNode* below() const { return static_cast<ModelNode*>(child(0)); }

  Plain<uint32_t> version;  // how many nodes in this place were replaced before
};

using Table = reclaim::impl::ScxTable<ModelNode::Base, 0>;
using Update = Table::Update;

constexpr unsigned kAttempts = 2;

class ReplaceLeafAndParent : public rl::test_suite<ReplaceLeafAndParent, 3> {
 public:
  void before() {
    for (ModelNode* node : {&top_, &first_parent_, &first_leaf_}) node->version = 0;
    top_.set_word(0, ModelNode::word_of(&first_parent_));
    first_parent_.set_word(0, ModelNode::word_of(&first_leaf_));
  }

  void thread(unsigned index) {
    for (unsigned i = 0; i < kAttempts; ++i) {
      ModelNode& fresh = fresh_[index][i];
      if (index == 0) {
        parents_ += replace_parent(fresh);
      } else {
        leaves_[index] += replace_leaf(fresh);
      }
    }
  }

  void after() {
    const ModelNode* parent = top_.below();
    expect(parent->version == parents_, "a new parent was lost, or never asked for");
    expect(parent->below()->version == leaves_[1] + leaves_[2],
           "a new leaf was lost, or never asked for");
    expect(!parent->is_finalized(), "a node in the tree is finalized");
    expect(parents_ == 0 || first_parent_.is_finalized(), "a node cut off is not finalized");
    expect(!table_.is_in_progress(top_.linked_info()), "an update has no end");
  }

 private:
  bool link(ModelNode* node, Update& update) {
    const uint64_t info = node->linked_info();
    if (table_.is_in_progress(info)) {
      if (mutated("who meets an update in progress goes on")) return add(node, info, update);
      table_.help(info, [](unsigned, ModelNode::Base*) {});
      return false;
    }
    if (node->is_finalized() && !mutated("a finalized node is linked")) return false;
    return add(node, info, update);
  }
  static bool add(ModelNode* node, uint64_t info, Update& update) {
    update.freeze(node, info);
    return true;
  }

  bool replace_leaf(ModelNode& fresh) {
    Update update;
    ModelNode* const parent = top_.below();
    ModelNode* const early = parent->below();
    if (!link(parent, update)) return false;
    ModelNode* const leaf =
        mutated("the child is read before its parent is linked") ? early : parent->below();
    fresh.version = leaf->version + 1;
    return swing(update, leaf, fresh);
  }

  bool replace_parent(ModelNode& fresh) {
    Update update;
    if (!link(&top_, update)) return false;
    ModelNode* const parent = top_.below();
    if (mutated("the parent is copied before it is linked")) fresh.set_word(0, parent->word(0));
    if (!link(parent, update)) return false;
    fresh.version = parent->version + 1;
    if (!mutated("the parent is copied before it is linked")) fresh.set_word(0, parent->word(0));
    if (mutated("the parent is not frozen")) update.count = 1;
    return swing(update, parent, fresh);
  }

  bool swing(Update& update, ModelNode* old, ModelNode& fresh) {
    update.old = old;
    update.replacement = &fresh;
    return table_.scx(update);
  }

  Table table_;
  ModelNode top_, first_parent_, first_leaf_;
  ModelNode fresh_[3][kAttempts];
  uint32_t parents_ = 0;
  uint32_t leaves_[3] = {};
};

Witness helpers("updates helped");
Witness nodes_freed("nodes freed");

void let_others_run() { rl::ctx().sched(); }

// A node that notices when it is used after it was freed.
struct FreedNode : AbtreeNode<int, int, 1> {
  using Base = AbtreeNode<int, int, 1>;
  FreedNode() : Base(Kind::inner, false, 1) {}

  bool freeze(uint64_t seen, uint64_t tag) {
    touch();
    const bool is_frozen = Base::freeze(seen, tag);
    for (int i = 0; i < 4; i++) let_others_run();
    return is_frozen;
  }
  void finalize() {
    touch();
    Base::finalize();
  }
  void swing(unsigned index, Base* from, Base* to) {
    touch();
    Base::swing(index, from, to);
  }
  void touch() const { expect(!is_freed, "a node is used after it was freed"); }
  void free() {
    is_freed = true;
    nodes_freed.note();
  }

  Plain<bool> is_freed;
};

// root - top - parent. Thread 0 replaces the parent; thread 1 replaces the top, and frees it if no
// slot holds it; thread 2 holds the parent, and helps the thread that changes it.
class HelpUnderSlots : public rl::test_suite<HelpUnderSlots, 3> {
 public:
  void before() {
    for (FreedNode* node : {&root_, &top_, &parent_, &fresh_top_, &fresh_parent_}) {
      node->is_freed = false;
    }
    root_.set_word(0, FreedNode::word_of(&top_));
    top_.set_word(0, FreedNode::word_of(&parent_));
    for (auto& slots : slots_) {
      for (auto& slot : slots) slot.store(nullptr, kRelaxed);
    }
    slots_[0][0].store(&top_, kRelaxed);
    slots_[0][1].store(&parent_, kRelaxed);
    slots_[1][0].store(&top_, kRelaxed);
    slots_[2][0].store(&parent_, kRelaxed);
  }

  void thread(unsigned index) {
    if (index == 0) {
      replace(0, top_, parent_, fresh_parent_);
    } else if (index == 1) {
      const bool is_replaced = replace(1, root_, top_, fresh_top_);
      if (!is_replaced && !replace(1, root_, top_, fresh_top_)) return;
      let_go(1);
      if (!is_held(top_)) top_.free();
      return;
    } else {
      for (int i = 0; i < 20; i++) {
        const uint64_t info = parent_.linked_info();
        if (table_.is_in_progress(info)) {
          helpers.note();
          help(2, info);
          break;
        }
        let_others_run();
      }
    }
    let_go(index);
  }

 private:
  using HeldTable = reclaim::impl::ScxTable<FreedNode, 0>;
  using HeldUpdate = HeldTable::Update;
  static constexpr unsigned kPath = 2;  // slots of the path; those of help() come next

  void help(unsigned thread, uint64_t tag) {
    table_.help(tag, [&](unsigned i, FreedNode* node) {
      slots_[thread][kPath + i].exchange(node, kSeqCst);
    });
  }

  bool link(unsigned thread, FreedNode& node, HeldUpdate& update) {
    const uint64_t info = node.linked_info();
    if (table_.is_in_progress(info)) return help(thread, info), false;
    if (node.is_finalized()) return false;
    update.freeze(&node, info);
    return true;
  }

  bool replace(unsigned thread, FreedNode& above, FreedNode& node, FreedNode& fresh) {
    HeldUpdate update;
    if (!link(thread, above, update) || above.child(0) != &node) return false;
    if (!link(thread, node, update)) return false;
    fresh.set_word(0, node.word(0));
    update.old = &node;
    update.replacement = &fresh;
    return table_.scx(update);
  }

  void let_go(unsigned thread) {
    for (auto& slot : slots_[thread]) slot.store(nullptr, kRelease);
  }

  // The slots of the thread that helps come first.
  bool is_held(const FreedNode& node) const {
    for (const unsigned thread : {2, 0}) {
      for (const auto& slot : slots_[thread]) {
        if (slot.load(kSeqCst) == &node) return true;
      }
    }
    return false;
  }

  HeldTable table_;
  FreedNode root_, top_, parent_, fresh_top_, fresh_parent_;
  Atomic<FreedNode*> slots_[3][kPath + HeldUpdate::kMostNodes + 1];
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<HelpUnderSlots>("help under slots", Random{200'000}),
    explore<ReplaceLeafAndParent>("replace leaf and parent", Random{200'000}),
};

const std::vector<Mutation> kMutations = {
    {"a freeze orders nothing", "abtree_node.hpp", "::freeze", kAcqRel, kRelaxed},
    {"a swing does not release the node", "abtree_node.hpp", "::swing", kAcqRel, kRelaxed},
    {"a child is not acquired", "abtree_node.hpp", "::word", kAcquire, kRelaxed},
    {"info is not acquired", "abtree_node.hpp", "::linked_info", kAcquire, kRelaxed},
    {"fields are not released", "scx.hpp", "::set", kRelease, kRelaxed},
    {"fields are not acquired", "scx.hpp", "::get", kAcquire, kRelaxed},
    {"a sequence is not released", "scx.hpp", "::begin", kRelease, kRelaxed},
    {"an end orders nothing", "scx.hpp", "::end", kAcqRel, kRelaxed},
    {"a status is not acquired", "scx.hpp", "::is_in_progress", kAcquire, kRelaxed},
    {"a claim is not acquired", "scx.hpp", "::try_claim", kAcquire, kRelaxed},
    {"a claim is not released", "scx.hpp", "::unclaim", kRelease, kRelaxed},
    {"a chunk is not released", "scx.hpp", "::grow", kAcqRel, kRelaxed},
    {"a chunk is not acquired", "scx.hpp", "::chunk", kAcquire, kRelaxed},
    {"who meets an update in progress goes on"},
    {"a finalized node is linked"},
    {"the child is read before its parent is linked"},
    {"the parent is copied before it is linked"},
    {"the parent is not frozen"},
};

}  // namespace near::model
