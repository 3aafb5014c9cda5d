#include "front/on_node.h"

#include <cerrno>
#include <cstdint>
#include <new>

#include "front/damage.h"
#include "front/emergency.h"
#include "front/front.h"
#include "front/large.h"
#include "front/refuse.h"
#include "front/sampled.h"
#include "heap/registry.h"
#include "node/memory.h"

namespace near {
namespace {

struct Request {
  unsigned size_class;  // kClasses: a large block
  size_t size;
  size_t alignment;

  Request(size_t alignment_asked, size_t size_asked)
      : size_class(class_for(size_asked, alignment_asked)),
        size(max_of(size_asked, kMediumMax + 1)),
        alignment(max_of(alignment_asked, kSliceSize)) {}
  bool is_large() const { return size_class == kClasses; }
};

// Returns a sampled block if one is due, else null: the caller takes an ordinary one.
void* take_if_sampled(unsigned node, size_t asked, const Request& wanted, NodePolicy policy) {
  if (likely(!profile::is_running()) || wanted.is_large()) return nullptr;
  return take_if_due(nodes[node].shard(0), asked, wanted.size_class, policy == NodePolicy::strict);
}

// Takes a block from a shared heap (none if `heap` is null), or a large block from the node. Null
// if there is no memory.
void* take_from(Heap* heap, unsigned node, const Request& wanted) {
  if (wanted.is_large()) return allocate_large_at(node, wanted.size, wanted.alignment);
  if (heap == nullptr) return nullptr;
  void* block = nullptr;
  {
    const LockGuard guard(heap->lock);
    block = heap->take_locked(wanted.size_class);
  }
  if (block != nullptr) record_held(static_cast<Block*>(block));
  return block;
}

Heap* heap_for(const Request& wanted, unsigned node) {
  return wanted.is_large() ? nullptr : node_heap(node);
}

// Allocates from `own`, or, if that is null, from the node heap of the node; if that has no memory
// and `policy` is not strict, from the other nodes, the nearest first.
void* find(unsigned node, Heap* own, const Request& wanted, NodePolicy policy) {
  void* block = take_from(own != nullptr ? own : heap_for(wanted, node), node, wanted);
  if (block != nullptr || policy == NodePolicy::strict) return block;
  for (unsigned i = 1; i < topology.count; i++) {
    const unsigned other = topology.order[node][i];
    block = take_from(heap_for(wanted, other), other, wanted);
    if (block == nullptr) continue;
    count_spill(node, other);
    return block;
  }
  return nullptr;
}

void* place(unsigned node, Heap* own, size_t alignment, size_t size, NodePolicy policy) {
  if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2) return refuse();
  if (unlikely(is_inside())) return take_emergency(size, alignment);
  const Request wanted(alignment, size);
  if (void* sampled = take_if_sampled(node, size, wanted, policy)) return sampled;
  void* block = find(node, own, wanted, policy);
  if (block != nullptr && wanted.is_large() && unlikely(profile::is_running())) {
    count_large(block, size);
  }
  report_recorded_damage();
  if (likely(block != nullptr)) return block;
  const Need need(wanted.is_large() ? size + alignment : size);
  if (need.has_hope()) {
    block = find(node, own, wanted, policy);
    if (block != nullptr) return block;
    need.record_vain();
  }
  if (policy == NodePolicy::strict) count_event(node_counters[node].refused);
  return refuse();
}

}  // namespace

void* allocate_on(unsigned node, size_t alignment, size_t size, NodePolicy policy) {
  return place(node, nullptr, alignment, size, policy);
}

BoundHeap* make_bound_heap(unsigned first, unsigned count, NodePolicy policy) {
  void* room = allocate(sizeof(BoundHeap));
  if (room == nullptr) return nullptr;
  auto* bound = new (room) BoundHeap{policy, first, 0, {0}, {}};
  for (; bound->count < count; bound->count++) {
    Heap* heap = take_bound_heap(first + bound->count);
    if (heap == nullptr) {
      end_bound_heap(bound);
      refuse();
      return nullptr;
    }
    bound->heaps[bound->count] = heap;
  }
  return bound;
}

void* allocate_from(BoundHeap& bound, size_t alignment, size_t size) {
  // relaxed: the order of the calls does not matter
  const uint32_t turn = bound.count == 1 ? 0 : bound.turn.fetch_add(1, kRelaxed) % bound.count;
  return place(bound.first + turn, bound.heaps[turn], alignment, size, bound.policy);
}

void end_bound_heap(BoundHeap* bound) {
  for (unsigned i = 0; i < bound->count; i++) park_heap(bound->heaps[i]);
  release(bound);
}

}  // namespace near
