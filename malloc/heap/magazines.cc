#include "heap/magazines.h"

#include "heap/damage.h"
#include "heap/delivery.h"
#include "node/memory.h"

namespace near {

constinit MagazinesInUse magazines_in_use;

namespace {

using Chain = RemoteList<Block>::Chain;

// Blocks on their way to their spans: one chain for each of the spans that came last.
class Returning {
 public:
  ~Returning() {
    for (Entry& entry : entries_) deliver_chain(entry);
  }

  void add(Block* block) {
    Span& span = span_with(block);
    Entry& entry = entries_[number_of(span) % kEntries];
    if (entry.span != &span) {
      deliver_chain(entry);
      entry = {&span, {block, block, 1}};
    } else if (span.remote.look().is_open()) {
      block->link_to(entry.chain.first);
      entry.chain.first = block;
      entry.chain.count++;
    }
  }

 private:
  static constexpr unsigned kEntries = 16;
  struct Entry {
    Span* span = nullptr;
    Chain chain = {};
  };

  // A closed list: the program freed a block twice, and the span left when it got the other one.
  static void deliver_chain(const Entry& entry) {
    if (entry.span == nullptr) return;
    Span& span = *entry.span;
    const auto seen = span.remote.look();
    if (!seen.is_open() || deliver(span, SpanBlocks{span.start}, entry.chain, seen).repeated) {
      record_damage({Flaw::ring, entry.chain.last});
    }
  }

  Entry entries_[kEntries];
};

}  // namespace

// The blocks leave the magazine before they are delivered: a child of fork must not find a block in
// both places.
void return_blocks(Magazine& magazine) {
  Block* blocks[Magazine::kMost];
  const uint32_t count = magazine.size();
  for (uint32_t i = 0; i < count; i++) blocks[i] = magazine.blocks[i];
  magazine.count.store(0, kRelease);  // pairs: forked-list
  Returning returning;
  for (uint32_t i = 0; i < count; i++) returning.add(blocks[i]);
}

size_t Magazines::bytes() {
  const size_t others = topology.count == 1 ? 0 : topology.count;
  return sizeof(Magazines) + others * kClasses * sizeof(Slot);
}

void Magazines::mark_exchange() {
  exchanges_.store(exchanges_.load(kRelaxed) + 1, kRelaxed);  // relaxed: a hint
  holds_.set(purge_signal);
}

// Returns a magazine with room in `slot`; null if memory is refused. A magazine leaves its slot
// before another thread can take it: a child of fork must not find it twice.
Magazine* Magazines::renew(Slot& slot, unsigned node, unsigned size_class) {
  Magazine* full = slot.load(kRelaxed);  // relaxed: inside the gate
  mark_exchange();
  if (full != nullptr) {
    slot.store(nullptr, kRelease);  // pairs: forked-list
    if (!depots[node].leave(self_, size_class, *full)) {
      return_blocks(*full);
      slot.store(full, kRelease);  // pairs: forked-list
      return full;
    }
  }
  Magazine* empty = take_empty(node);
  slot.store(empty, kRelease);  // pairs: forked-list
  return empty;
}

// Of the blocks' node, where the magazine will be emptied: so as many come back as are taken.
Magazine* Magazines::take_empty(unsigned node) {
  Magazine* spare = spare_.load(kRelaxed);  // relaxed: inside the gate
  if (node != node_ || spare == nullptr) return depots[node].take_empty(self_, node);
  spare_.store(nullptr, kRelease);  // pairs: forked-list
  return spare;
}

void Magazines::leave_empty(Magazine& empty) {
  if (spare_.load(kRelaxed) != nullptr) {  // relaxed: inside the gate
    depots[node_].leave_empty(self_, empty);
  } else {
    spare_.store(&empty, kRelease);  // pairs: forked-list
  }
}

Block* Magazines::take(unsigned size_class) {
  if (Block* block = take_ready(size_class)) return block;
  if (unlikely(!gate_.enter())) return nullptr;
  const bool ready = serve(size_class);
  gate_.leave();
  return ready ? take_ready(size_class) : nullptr;
}

// Puts a magazine from the depot into the slot `serving`, which has no blocks. False if there is
// none.
bool Magazines::serve(unsigned size_class) {
  Slot& serving = serving_[size_class];
  Magazine* empty = serving.load(kRelaxed);  // relaxed: inside the gate
  if (empty != nullptr && empty->size() > 0) return true;
  Magazine* next = depots[node_].take(self_, size_class);
  if (next == nullptr) return false;
  mark_exchange();
  serving.store(next, kRelease);  // pairs: forked-list
  if (empty != nullptr) leave_empty(*empty);
  return true;
}

void Magazines::give_back(Slot& slot, unsigned node) {
  Magazine* magazine = slot.load(kRelaxed);  // relaxed: see the callers
  slot.store(nullptr, kRelease);             // pairs: forked-list
  return_blocks(*magazine);
  depots[node].leave_empty(self_, *magazine);
}

// Gives back the spare magazine, and that of each slot for which chooses(node, size_class) is true.
// Returns whether any magazine is left.
template <typename Chooses>
bool Magazines::give_back_if(Chooses chooses) {
  bool left = false;
  if (spare_.load(kRelaxed) != nullptr) give_back(spare_, node_);  // relaxed: see the callers
  const auto look = [&](Slot& slot, unsigned node, unsigned size_class) {
    if (slot.load(kRelaxed) == nullptr) return;  // relaxed: see the callers
    if (chooses(node, size_class)) {
      give_back(slot, node);
    } else {
      left = true;
    }
  };
  for (unsigned c = 0; c < kClasses; c++) {
    look(serving_[c], node_, c);
    for (unsigned n = 0; n < topology.count; n++) look(slot_for(n, c), n, c);
  }
  return left;
}

void Magazines::give_back_unused(bool all) {
  if (!gate_.enter()) return;
  const auto is_unused = [&](unsigned node, unsigned size_class) {
    return all || !used_[node].has(size_class);
  };
  const bool left = give_back_if(is_unused);
  for (unsigned n = 0; n < topology.count; n++) used_[n] = {};
  if (!left) holds_.clear();
  gate_.leave();
}

void Magazines::give_back_all() {
  give_back_if([](unsigned, unsigned) { return true; });
  holds_.clear();
}

template <typename Visit>
void Magazines::for_each_magazine(Visit visit) const {
  const auto show = [&](const Slot& slot, unsigned node, unsigned size_class) {
    const Magazine* magazine = slot.load(kRelaxed);  // relaxed: a statistic
    if (magazine != nullptr) visit(node, size_class, magazine->size());
  };
  for (unsigned c = 0; c < kClasses; c++) {
    show(serving_[c], node_, c);
    show(filling_[c], node_, c);
    for (unsigned n = 0; n < topology.count; n++) {
      if (n != node_) show(away_[n * kClasses + c], n, c);
    }
  }
}

void Magazines::add_bytes(uint64_t* bytes_of_node) const {
  for_each_magazine([&](unsigned node, unsigned size_class, uint32_t blocks) {
    bytes_of_node[node] += uint64_t{blocks} * kSizeClasses[size_class].size;
  });
}

void Magazines::add_blocks(uint64_t* blocks_of_class) const {
  for_each_magazine([&](unsigned, unsigned size_class, uint32_t blocks) {
    blocks_of_class[size_class] += blocks;
  });
}

}  // namespace near
