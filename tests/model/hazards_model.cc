// Model of hazard pointers (reclaim/impl/hazard.hpp), with both kinds of fence. Mirrors
// look_at_hazards of reclaim/hazards.cc.
//
// Invariant: an object is freed after the last use by every thread that validated its pointer.
// Bound: 3 threads that attach while the others run. One protects a node 2 times, in one guard or
// in two of which the second is nested; one goes on from a protected node to its child, by hold and
// a second look at the parent; one changes the source and changes it back, then unlinks the node
// and its child, or the new node as well, and collects.
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/record_list.hpp"
#include "retired.h"

namespace near::model {
namespace {

using namespace reclaim::impl;

Witness objects_held("objects that were kept for their holder");
Witness nodes_kept("nodes used after a nested guard");
Witness looks_failed("children that were gone at the second look");

struct Record {
  HazardWords hazards;
  Plain<Record*> next;
  Limbo limbo;
};

struct Node {
  Object object;
  Object child_object;
  Atomic<Object*> child{nullptr};
  Atomic<uint32_t> removed{0};

  void make() {
    object.make();
    child_object.make();
    child.store(&child_object, kRelaxed);
  }
};

class Hazards : public FencedSuite<Hazards> {
 public:
  Hazards() : asymmetric_(choose(2) == 1), source_(&nodes_[0]) { nodes_[0].make(); }

  void thread(unsigned index) {
    Record& record = rooms_[index];
    record.limbo.init(0);
    add_record(records_, record);
    if (index == 0) {
      read_twice(record);
    } else if (index == 1) {
      go_to_child(record);
    } else {
      unlink_all(record);
    }
  }

 private:
  Node* protect(Record& record, SlotRow& row, uint32_t slot) {
    if (!mutated("the source is not read again")) {
      return record.hazards.protect(row, slot, source_, asymmetric_);
    }
    Node* node = source_.load(kAcquire);
    record.hazards.hold(row, slot, node, asymmetric_);
    return node;
  }

  // The second read uses the same slot, with or without a clear in between; or that slot of a
  // nested guard, after which the first node is still protected.
  void read_twice(Record& record) {
    const uint32_t slot = choose(2);
    const uint32_t what = choose(3);
    SlotRow row;
    const Node* first = protect(record, row, slot);
    first->object.touch();
    if (what == 0) record.hazards.clear(row);
    SlotRow inner;
    const bool is_nested = what == 1;
    const bool shares = !is_nested || mutated("a nested guard takes the slots of the other");
    protect(record, shares ? row : inner, slot)->object.touch();
    record.hazards.give_back(inner);
    if (is_nested) {
      first->object.touch();
      nodes_kept.note();
    }
    record.hazards.give_back(row);
  }

  void go_to_child(Record& record) {
    SlotRow row;
    Node* node = record.hazards.protect(row, 0, source_, asymmetric_);
    Object* child = node->child.load(kRelaxed);
    record.hazards.hold(row, 1, child, asymmetric_);
    // relaxed: the fence orders it
    const bool is_gone = node->removed.load(kRelaxed) != 0;
    if (is_gone) looks_failed.note();
    if (!is_gone || mutated("the parent is not looked at again")) child->touch();
    record.hazards.give_back(row);
  }

  void unlink_all(Record& record) {
    nodes_[1].make();
    nodes_[2].make();
    if (choose(2) == 1) {
      source_.store(&nodes_[1], kRelease);
      source_.store(&nodes_[0], kRelease);
    }
    unlink(record, 0);
    if (choose(2) == 1) collect(record);
    unlink(record, 1);
    collect(record);
    if (choose(2) == 1) collect(record);
  }

  void unlink(Record& record, uint32_t index) {
    nodes_[index].removed.store(1, kRelaxed);
    source_.store(&nodes_[index + 1], kRelease);
    record.limbo.push(&nodes_[index].object);
    record.limbo.push(&nodes_[index].child_object);
  }

  // look_at_hazards
  void collect(Record& record) {
    if (!mutated("a look without a fence")) heavy_fence(asymmetric_);
    const void* held[kRoom];
    uint32_t count = 0;
    collect_hazards(records_, [&](const void* object) {
      expect(count < kRoom, "more is held than there are slots");
      held[count++] = object;
    });
    record.limbo.sift([&](const Object* object, uint64_t) {
      const bool stays = std::find(held, held + count, node_of(object)) != held + count ||
                         std::find(held, held + count, object) != held + count;
      if (stays) objects_held.note();
      return stays;
    });
  }

  // A slot holds the node; the limbo holds the node's object.
  const void* node_of(const Object* object) const {
    for (const Node& each : nodes_) {
      if (object == &each.object) return &each;
    }
    return nullptr;
  }

  static constexpr uint32_t kRoom = kThreads * kHazardSlots;
  const bool asymmetric_;
  Atomic<Record*> records_{nullptr};
  Record rooms_[3];
  Node nodes_[3];
  Atomic<Node*> source_;
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<Hazards>("protect, hold, collect", Random{300'000}),
};

const std::vector<Mutation> kMutations = {
    {"hold without a fence", "hazard.hpp", "::hold(", kSeqCst, kRelaxed},
    {"hold does not release what the slot held", "hazard.hpp", "::publish(", kRelease, kRelaxed},
    {"the source is not acquired", "hazard.hpp", "::protect(", kAcquire, kRelaxed},
    {"clear does not release", "hazard.hpp", "::empty(", kRelease, kRelaxed},
    {"the records are not acquired", "hazard.hpp", "collect_hazards", kAcquire, kRelaxed,
     "head.load"},
    {"a slot is not acquired", "hazard.hpp", "collect_hazards", kAcquire, kRelaxed,
     "slots[i].load"},
    {"a record is not released", "record_list.hpp", "add_record", kAcqRel, kAcquire},
    {"a nested guard takes the slots of the other"},
    {"a look without a fence"},
    {"the source is not read again"},
    {"the parent is not looked at again"},
};

}  // namespace near::model
