// SCX: changes one child pointer of a tree, provided that given nodes have not changed since they
// were read, and finalizes the nodes that this cuts off. Its descriptors are reused.
//
//   link   (LLX) notes a node's info word; fails if the node is frozen or finalized. Its fields are
//          read after that: the freezing CAS proves that they have not changed since
//   SCX    freezes nodes[0..count) in this order, each by a CAS of info from what was noted to the
//          tag of this update; marks nodes[1..count) finalized; swings the child pointer; commits
//   help   a thread that meets a frozen node of an update in progress takes the same steps
//
// A tag is sequence << 14 | slot << 2. The slot is that of a descriptor, whose status word is
// tag | state: in progress, then committed or aborted, by CAS, so that a late helper changes
// nothing. The next update in the slot has the next sequence: a tag that is not in the status of
// its slot belongs to an update that is over. A sequence has 50 bits: an info word could be taken
// for that of another update only if it stayed unchanged through 10^15 updates of one slot.
// A descriptor is claimed for one SCX. Threads have numbers, and the table grows, by doubling,
// until it covers the number of the claiming thread. So each thread has a slot of its own as long
// as numbers are below 4096; beyond that, threads share slots. Numbers of ended threads are reused.
// So a table has at most as many descriptors as the most threads that lived at once and ran an SCX,
// in any table, rounded up to a power of two; at least 2^FirstChunkBits. (In the child of a fork,
// an update that another thread had begun keeps its slot for ever; a claim takes the next slot.)
// Descriptors stay in place while the table lives.
//
// The caller ensures: nodes[i], i > 0, and `old` were children of earlier nodes when those were
// linked; `old` is child `index` of nodes[0]; `replacement` is new; the caller of SCX retires what
// is cut off, after the commit. Then these invariants hold:
// - While an update is in progress, the nodes it has frozen and their children are in the tree, or
//   were swung out but are not retired yet. A helper that came from nodes[k] knows that nodes[0..k]
//   are frozen. If it finds the update in progress AFTER it held the nodes (or pinned its epoch),
//   it may touch nodes[k + 1], and each further node once the one before is frozen.
// - A thread aborts an update if it finds an info other than the one noted. Tags are unique, so
//   that node will never be frozen for the update, nor will any behind it.
// - Info leaves a tag only when that update is over. A helper that finds a different tag in a node
//   frozen for its update will find that update committed.
// - The swing succeeds once: a helper that may still try it protects `old`, so that its address
//   cannot recur.
// Thread-safety: any thread under a guard of the tree's domain.
// [Brown, Ellen, Ruppert: "Pragmatic primitives for non-blocking data structures", PODC 2013;
// Arbel-Raviv, Brown: "Reuse, don't recycle", DISC 2017]
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"

namespace near::reclaim::impl {

struct TestAccess;  // core.hpp

// What an update freezes and changes.
template <class Node>
struct ScxUpdate {
  static constexpr unsigned kMostNodes = 4;

  void freeze(Node* node, uint64_t info) {
    nodes[count] = node;
    seen[count++] = info;
  }

  unsigned count = 0;
  unsigned index = 0;
  std::array<Node*, kMostNodes> nodes{};
  std::array<uint64_t, kMostNodes> seen{};
  Node* old = nullptr;
  Node* replacement = nullptr;
};

enum class ScxState : uint64_t { in_progress, committed, aborted };

inline constexpr unsigned kScxStateBits = 2;
inline constexpr unsigned kScxSlotBits = 12;
inline constexpr uint64_t kScxSequence = uint64_t{1} << (kScxSlotBits + kScxStateBits);
inline constexpr unsigned kScxMostSlots = 1u << kScxSlotBits;
static_assert(kScxMostSlots == kThreadNumbers);

constexpr uint64_t scx_status(uint64_t tag, ScxState state) {
  return tag | static_cast<uint64_t>(state);
}

constexpr unsigned scx_slot(uint64_t tag) {
  return static_cast<unsigned>(tag >> kScxStateBits) & (kScxMostSlots - 1);
}

// Two cache lines, as the processor fetches the neighbouring line too.
template <class Node>
class alignas(128) ScxDescriptor {
 public:
  using Update = ScxUpdate<Node>;

  bool try_claim() {
    // relaxed: a hint that avoids needless exchanges
    return !claimed_.load(kRelaxed) && !claimed_.exchange(true, kAcquire);  // pairs: scx-claim
  }
  void unclaim() { claimed_.store(false, kRelease); }  // pairs: scx-claim

  // Called by the claimant: begins the next update in `slot`, which is this descriptor's; returns
  // its tag. A helper of an earlier update that acquires a new field then finds the new status.
  uint64_t begin(unsigned slot, const Update& update) {
    // relaxed: only a claimant begins a sequence, and the claim acquired the last claimant's
    const uint64_t last = status_.load(kRelaxed) & ~(kScxSequence - 1);
    // A sequence is never 0, not even when it wraps: an info of 0 means that no update froze the
    // node.
    const uint64_t next = last + kScxSequence == 0 ? kScxSequence : last + kScxSequence;
    const uint64_t tag = next + (uint64_t{slot} << kScxStateBits);
    // pairs: scx-status
    status_.store(scx_status(tag, ScxState::in_progress), kRelease);
    set(shape_, update.index * (Update::kMostNodes + 1) + update.count);
    for (unsigned i = 0; i < update.count; ++i) {
      set(nodes_[i], update.nodes[i]);
      set(seen_[i], update.seen[i]);
    }
    set(old_, update.old);
    set(replacement_, update.replacement);
    return tag;
  }

  // Returns the update of a tag, provided that it is still in progress afterwards.
  Update read() const {
    Update update;
    const unsigned shape = get(shape_);
    update.index = shape / (Update::kMostNodes + 1);
    const unsigned count = shape % (Update::kMostNodes + 1);
    for (unsigned i = 0; i < count; ++i) update.freeze(get(nodes_[i]), get(seen_[i]));
    update.old = get(old_);
    update.replacement = get(replacement_);
    return update;
  }

  bool is_in_progress(uint64_t tag) const {
    // pairs: scx-status
    return status_.load(kAcquire) == scx_status(tag, ScxState::in_progress);
  }

  // Ends the update of `tag` unless it has ended. True: it is committed. Only the claimant may rely
  // on the result, as only it knows that the sequence is still the same.
  bool end(uint64_t tag, ScxState state) {
    uint64_t status = scx_status(tag, ScxState::in_progress);
    // pairs: scx-status
    if (status_.compare_exchange_strong(status, scx_status(tag, state), kAcqRel, kAcquire)) {
      return state == ScxState::committed;
    }
    return status == scx_status(tag, ScxState::committed);
  }

 private:
  friend struct TestAccess;

  template <class T>
  static void set(Atomic<T>& field, T value) {
    field.store(value, kRelease);  // pairs: scx-field
  }
  template <class T>
  static T get(const Atomic<T>& field) {
    return field.load(kAcquire);  // pairs: scx-field
  }

  Atomic<uint64_t> status_{static_cast<uint64_t>(ScxState::aborted)};
  Atomic<bool> claimed_{false};
  Atomic<unsigned> shape_{0};
  std::array<Atomic<Node*>, Update::kMostNodes> nodes_{};
  std::array<Atomic<uint64_t>, Update::kMostNodes> seen_{};
  Atomic<Node*> old_{nullptr};
  Atomic<Node*> replacement_{nullptr};
};

template <class Node, unsigned FirstChunkBits = 4>
class ScxTable {
 public:
  using Descriptor = ScxDescriptor<Node>;
  using Update = ScxUpdate<Node>;

  ScxTable() { grow(0); }
  ~ScxTable() {
    // relaxed: no other thread is left
    for (auto& chunk : chunks_) delete[] chunk.load(kRelaxed);
  }
  ScxTable(const ScxTable&) = delete;
  ScxTable& operator=(const ScxTable&) = delete;

  // True if the update was carried out. If it throws std::bad_alloc, it has done nothing.
  bool scx(const Update& update) {
    const unsigned slot = claim();
    Descriptor& descriptor = at(slot);
    const bool done = carry_out(descriptor, descriptor.begin(slot, update), update);
    descriptor.unclaim();
    return done;
  }

  // `tag` is an info word; it may be the initial 0.
  bool is_in_progress(uint64_t tag) const { return at(scx_slot(tag)).is_in_progress(tag); }

  // Helps the update of `tag`, which the caller read from a node that it protects. `hold(i, node)`
  // protects the i-th of up to kMostNodes + 1 nodes from then on, unless it is already retired.
  template <class Hold>
  void help(uint64_t tag, Hold hold) {
    Descriptor& descriptor = at(scx_slot(tag));
    const Update update = descriptor.read();
    for (unsigned i = 0; i < update.count; ++i) hold(i, update.nodes[i]);
    hold(Update::kMostNodes, update.old);
    if (descriptor.is_in_progress(tag)) carry_out(descriptor, tag, update);
  }

 private:
  friend struct TestAccess;

  static constexpr unsigned kChunks = kScxSlotBits - FirstChunkBits + 1;

  static bool carry_out(Descriptor& descriptor, uint64_t tag, const Update& update) {
    for (unsigned i = 0; i < update.count; ++i) {
      if (!update.nodes[i]->freeze(update.seen[i], tag)) {
        return descriptor.end(tag, ScxState::aborted);
      }
    }
    for (unsigned i = 1; i < update.count; ++i) update.nodes[i]->finalize();
    update.nodes[0]->swing(update.index, update.old, update.replacement);
    return descriptor.end(tag, ScxState::committed);
  }

  // Chunk 0 has 2^FirstChunkBits slots, and each further one as many as all before it.
  static constexpr unsigned first_slot(unsigned chunk) {
    return chunk == 0 ? 0 : 1u << (FirstChunkBits + chunk - 1);
  }
  static constexpr unsigned chunk_of(unsigned slot) {
    const unsigned width = static_cast<unsigned>(std::bit_width(slot));
    return width <= FirstChunkBits ? 0 : width - FirstChunkBits;
  }

  Descriptor* chunk(unsigned number) const {
    return chunks_[number].load(kAcquire);  // pairs: scx-chunk
  }
  Descriptor& at(unsigned slot) const {
    const unsigned number = chunk_of(slot);
    return chunk(number)[slot - first_slot(number)];
  }

  // The thread's own slot, or the next one that is free.
  unsigned claim() {
    const unsigned number = kModel ? 0 : thread_number();
    for (unsigned i = 0;; ++i) {
      if (i % kScxMostSlots == kScxMostSlots - 1) std::this_thread::yield();
      const unsigned slot = (number + i) % kScxMostSlots;
      if (chunk(chunk_of(slot)) == nullptr) grow(chunk_of(slot));
      if (at(slot).try_claim()) return slot;
    }
  }

  void grow(unsigned number) {
    if (chunk(number) != nullptr) return;
    const unsigned size = number == 0 ? 1u << FirstChunkBits : first_slot(number);
    auto* const fresh = new Descriptor[size];
    Descriptor* none = nullptr;
    // pairs: scx-chunk
    if (!chunks_[number].compare_exchange_strong(none, fresh, kAcqRel, kAcquire)) {
      delete[] fresh;
    }
  }

  std::array<Atomic<Descriptor*>, kChunks> chunks_{};
};

}  // namespace near::reclaim::impl
