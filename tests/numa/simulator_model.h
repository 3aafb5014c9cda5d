// What the simulator itself records: the virtual threads, the live blocks, and counts of what it
// did. The checks compare the allocator with it.
//
// A virtual thread is what the front keeps of a thread, put aside while another one plays on the
// one real thread. Between two steps no thread is entered: current_heap is then the empty heap.
// Thread-safety: the simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "front/thread.h"
#include "nearmalloc/nearmalloc.h"
#include "node/memory.h"
#include "numa/simulator_journal.h"
#include "numa/simulator_world.h"

namespace near_test {

// True for a thread's heap; false for the heaps that mean "no heap".
inline bool is_real(const near::Heap* heap) {
  return heap != &near::empty_heap && heap != &near::exited_heap;
}

// How long a thread has had its heap: the rule of re-homing depends on it.
struct Residence {
  unsigned slow_paths = 1000;  // of the thread, since its heap changed
  unsigned doubtful = 0;       // slow paths until that is known again: a refusal hides its own
};

struct VirtualThread {
  unsigned number;
  unsigned cpu;
  near::Heap* heap = &near::empty_heap;
  near::ThreadRecord record = {};
  Residence residence = {};

  void enter() const;
  void leave();
  void move_to(unsigned new_cpu);
  unsigned node() const { return near::topology.node_of(cpu); }
};

struct LiveBlock {
  char* start;
  size_t size;
  uint64_t pattern;
  unsigned maker;  // number of the virtual thread
};

// Fills a block so that it differs from every other; all its first bytes are equal, so that
// realloc can be followed.
void fill_block(const LiveBlock& block);
bool is_intact(const LiveBlock& block);

// A heap that the program made. Its handle is a block of the thread that made the heap.
struct BoundHeap {
  near_heap* handle;
  unsigned first;  // node
  unsigned count;  // of nodes, which it serves in turn
  bool strict;
  unsigned turn = 0;
};

// What happened to a node's memory.
struct NodeAccount {
  // Its blocks that were freed by threads of node j: into their own spans, and otherwise.
  uint64_t freed_own[near::kMaxNodes] = {};
  uint64_t freed_apart[near::kMaxNodes] = {};
  uint64_t rehomes = 0;
  uint64_t spills_out = 0;
  uint64_t spills_in = 0;
  uint64_t refused = 0;
};

// The source of a block: a free of it depends on this.
struct Origin {
  const near::Span* span;
  near::SpanKind kind;
  const near::Heap* owner;
  unsigned node;
};
Origin origin_of(const void* block);

struct Model {
  Model(Journal& journal_, const World& world_);

  Journal& journal;
  const World& world;
  RegionNumbers regions;
  std::vector<VirtualThread> threads;
  std::vector<LiveBlock> blocks;
  size_t live_bytes = 0;
  std::vector<BoundHeap> bound_heaps;
  NodeAccount nodes[near::kMaxNodes];
  uint64_t remote_frees = 0;

  void add(char* start, size_t size, unsigned maker);
  LiveBlock remove(size_t index);
  void replace(size_t index, char* start, size_t size, unsigned maker);

  // The thread that is entered frees a block now, or did so last.
  void record_free(const Origin& origin);

  // A request for a node was served by another.
  void record_spill(unsigned node, unsigned other);

  // Node, region, and offset in units of 16 bytes: a name for an address.
  void record_place(const char* what, const void* address, uint64_t size);

 private:
  uint64_t patterns_ = 0;
};

// The descriptor of the span that holds a live block.
near::Span& span_of_block(const void* block);

}  // namespace near_test
