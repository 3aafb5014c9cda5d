// The batches of a domain under Hyaline that were sent: objects that are in no thread's limbo until
// the last thread lets go of their batch.
//
// Invariant: `counts` has what the batches in flight hold; it changes with the limbo of the sender
// or the receiver, inside its lock.
// In the child of a fork the references of threads that are gone are dropped: those on their lists.
// A thread that was just sending a batch, or ending a guard, had references that no list shows. A
// batch with such references counts as lost in the child, and has an older `fork` than the process
// from then on; if it lands nevertheless, it is lost no longer.
// Thread-safety: any thread. A batch belongs to its sender until it is sent, then to the thread
// that dropped the last reference.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/aside.hpp"
#include "nearmalloc/reclaim/impl/batches.hpp"
#include "nearmalloc/reclaim/impl/flight_counts.hpp"
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
  uint32_t room;   // nodes
  uint32_t fork;   // fork_count() when it was counted as in flight
  uint32_t found;  // in the child of a fork: its nodes that were found
  Atomic<uint32_t> references;
  Batch* next;  // in `ready`
  BatchNode* nodes;
};

struct Flights {
  FlightCounts counts;
  // What a signal handler dropped last, which must not take the lock of a limbo.
  alignas(128) Aside<Batch> ready;
};

}  // namespace near::reclaim::impl
