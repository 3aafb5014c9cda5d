// The batches of a domain under Hyaline that were sent: objects that are in no thread's limbo until
// the last thread lets go of their batch.
//
// Invariant: `objects` and `bytes` are what the batches in flight hold; both change with the limbo
// of the sender or the receiver, inside its lock. A barrier changes the phase after it has taken
// all limbos: what was retired before is then in a batch of one of the two phases before the new
// one, or has landed. A sender reads the phase inside its lock, so only the two latest are sent in.
// Thread-safety: any thread. A batch belongs to its sender until it is sent, then to the thread
// that dropped the last reference.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/batches.hpp"
#include "nearmalloc/reclaim/impl/limbo.hpp"

namespace near::reclaim::impl {

struct Batch;

struct BatchNode {
  using batch_type = Batch;
  BatchNode* next;
  Batch* batch;
};

// One allocation, with its nodes behind it.
struct Batch {
  Bag objects;
  uint64_t birth;
  uint64_t phase;
  uint32_t room;  // nodes
  Atomic<uint32_t> references;
  Batch* next;  // in `ready`
  BatchNode* nodes;
};

struct Flights {
  Atomic<uint64_t> phase{0};
  Atomic<uint64_t> objects[2] = {0, 0};  // of the phases with this number modulo 2
  Atomic<uint64_t> bytes{0};
  // What a signal handler dropped last, which must not take the lock of a limbo.
  Atomic<Batch*> ready{nullptr};

  // relaxed: counters for statistics
  uint64_t all_objects() const { return objects[0].load(kRelaxed) + objects[1].load(kRelaxed); }
};

}  // namespace near::reclaim::impl
