// The magazines of one heap: blocks of other heaps' spans that its thread freed, and magazines from
// the depot that it allocates from.
//
// For each class of the heap's node there are two: `filling` takes what the thread frees, `serving`
// comes from the depot. A full one goes to the depot of its node. One empty magazine stays as a
// spare: a thread that both allocates and frees needs no empty ones from the depot. The thread
// allocates from `filling` what exceeds its half, the last block first, because that is in a near
// cache; then from `serving`. The lower half waits: a thread that frees a foreign block now and
// then does not get the neighbours of other threads' blocks, which it would share cache lines with.
// For each other node there is one magazine a class, and it only fills.
// Why this is fast: a thread that frees the blocks of 191 others writes to its own magazines, and
// reads of the block's span only a word that seldom changes.
// Bound: blocks wait here until the magazine is full; at most a tenth of a second after the thread
// was last busy, the purge thread gives them back to their spans. A busy thread gives back what it
// did not add to since the purge thread's last request.
// Invariant: the owner works on the magazines inside `gate`; another thread only while it has
// closed the gate and the owner is not inside. A magazine is in one slot at most, and the spare has
// no blocks. While any is here, or the owner may leave one in a depot, the heap is marked (holds_).
// Thread-safety: `put`, both takes and `give_back_unused`: the owner's thread. docs/decisions/0019
#pragma once

#include <cstdint>

#include "heap/depot.h"
#include "heap/gate.h"
#include "node/purge_signal.h"
#include "platform/topology.h"
#include "sizes/class_set.h"
#include "span/magazine.h"

namespace near {

// Whether threads keep foreign blocks in magazines; otherwise these return to their spans one by
// one. The use starts with the purge thread, because that keeps the bound of magazines, if the
// kernel has membarrier and the option `magazines` allows it. The word is aligned, because every
// free of a foreign block reads it.
struct alignas(128) MagazinesInUse {
  Atomic<bool> value{false};
};
extern NEAR_HIDDEN MagazinesInUse magazines_in_use;
inline bool uses_magazines() {
  return magazines_in_use.value.load(kAcquire);  // pairs: magazines-in-use
}

class Magazines {
 public:
  enum class Put : uint8_t { kept, repeated, declined };

  // The bytes of an object: its size depends on the number of nodes.
  static size_t bytes();
  // `self`: chooses the part of each depot. The heap lies on the node.
  Magazines(uint32_t self, unsigned node)
      : self_(self), node_(static_cast<uint8_t>(node)), away_(reinterpret_cast<Slot*>(this + 1)) {}

  // Keeps a block that the thread freed. `repeated`: it is the block that was kept last (a double
  // free). `declined`: the caller gives it back to its span.
  NEAR_INLINE Put put(unsigned node, unsigned size_class, Block* block) {
    if (unlikely(!gate_.enter())) return Put::declined;
    Slot& slot = slot_for(node, size_class);
    Magazine* magazine = slot.load(kRelaxed);  // relaxed: inside the gate
    // The magazine may lie on another node: its size is read once.
    uint32_t size = magazine == nullptr ? kMagazineCapacity[size_class] : magazine->size();
    Put result = Put::declined;
    if (unlikely(magazine != nullptr && magazine->is_last(block, size))) {
      result = Put::repeated;
    } else {
      if (unlikely(size == kMagazineCapacity[size_class])) {
        magazine = renew(slot, node, size_class);
        size = 0;
      }
      if (likely(magazine != nullptr)) {
        magazine->push(block, size);
        used_[node].add(size_class);
        result = Put::kept;
      }
    }
    gate_.leave();
    return result;
  }

  // Returns a block of the heap's node from its magazines; null if they have none for it.
  NEAR_INLINE Block* take_ready(unsigned size_class) {
    if (unlikely(!gate_.enter())) return nullptr;
    Magazine* magazine = filling_[size_class].load(kRelaxed);  // relaxed: inside the gate
    if (magazine == nullptr || magazine->size() <= kMagazineCapacity[size_class] / 2u) {
      magazine = serving_[size_class].load(kRelaxed);  // relaxed: inside the gate
    }
    Block* block = nullptr;
    if (likely(magazine != nullptr && magazine->size() > 0)) {
      block = magazine->pop();
      magazine->prefetch_next();
      used_[node_].add(size_class);
    }
    gate_.leave();
    return block;
  }

  // As take_ready; if these have none, it takes a magazine from the depot first.
  Block* take(unsigned size_class);

  // True if the owner exchanged no magazine since the last call. The purge thread.
  bool are_idle() {
    const uint32_t exchanges = exchanges_.load(kRelaxed);  // relaxed: a hint
    const bool idle = exchanges == seen_exchanges_;
    seen_exchanges_ = exchanges;
    return idle;
  }

  // Gives back the magazines that were not used since the last call, or all of them.
  void give_back_unused(bool all);

  // Gives back everything. The caller is inside the gate, or has closed it, or the heap is parked
  // and the caller has taken it.
  void give_back_all();

  // True if blocks may be here, or the owner may leave some in a depot. Any thread.
  bool holds() const { return holds_.is_set(); }

  Gate& gate() { return gate_; }

  // Adds the bytes of the blocks here to the sums of their nodes. Any thread: the numbers may be
  // stale.
  void add_bytes(uint64_t* bytes_of_node) const;
  // As add_bytes: the number of blocks, by class.
  void add_blocks(uint64_t* blocks_of_class) const;

 private:
  using Slot = Atomic<Magazine*>;

  // Calls visit(node, size_class, blocks) for each magazine.
  template <typename Visit>
  void for_each_magazine(Visit visit) const;

  // The magazine for freed blocks.
  NEAR_INLINE Slot& slot_for(unsigned node, unsigned size_class) {
    return node == node_ ? filling_[size_class] : away_[node * kClasses + size_class];
  }
  NEAR_NOINLINE Magazine* renew(Slot& slot, unsigned node, unsigned size_class);
  NEAR_NOINLINE bool serve(unsigned size_class);
  Magazine* take_empty(unsigned node);
  void leave_empty(Magazine& empty);
  void mark_exchange();
  void give_back(Slot& slot, unsigned node);
  template <typename Chooses>
  bool give_back_if(Chooses chooses);

  Gate gate_;
  const uint32_t self_;
  const uint8_t node_;
  PurgeMark holds_;
  Atomic<uint32_t> exchanges_{0};  // magazines that came or went
  uint32_t seen_exchanges_ = 0;    // by the purge thread
  Slot filling_[kClasses] = {};
  Slot serving_[kClasses] = {};
  Slot spare_{nullptr};       // an empty one of the heap's node
  ClassSet used_[kMaxNodes];  // by node: the classes of which a block came or went
  Slot* const away_;          // behind this object, by node and class; none if there is one node
};

// Gives the blocks of a magazine back to their spans, and empties it. Any thread that has it.
void return_blocks(Magazine& magazine);

}  // namespace near
