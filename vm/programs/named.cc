// Memory of nodes that a program names: the kernel says on which node every page of a block is.
//
// Run in a guest with several nodes (numa) under nearmalloc. From each processor in turn, blocks
// of all kinds are asked for of every node with memory, one without processors too: by the node's
// number, from a heap of the node, and from an interleaved heap, which goes round. All that live
// are audited (audit_pages.h), and every other one is freed from wherever the thread is. Prints one
// JSON object with the sums over all audits.
// Invariant: the home of a block is the node that was named; of an interleaved heap's block, the
// node whose turn it was. One thread, which moves.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "audit_pages.h"
#include "bound_pages.h"
#include "nearmalloc/nearmalloc.h"

namespace {

using namespace numa_guest;

constexpr size_t kMostBlocks = size_t{1} << 16;
constexpr size_t kSizes[] = {16, 100, 1000, 5000, 30'000, 70'000, size_t{1} << 20};
constexpr size_t kAlignments[] = {64, 4096, 65'536};

// The allocator is preloaded.
struct Api {
  decltype(&near_malloc_on_node) malloc_on_node;
  decltype(&near_aligned_alloc_on_node) aligned_alloc_on_node;
  decltype(&near_heap_create_on_node) create_on_node;
  decltype(&near_heap_create_interleaved) create_interleaved;
  decltype(&near_heap_malloc) heap_malloc;
  decltype(&near_heap_aligned_alloc) heap_aligned_alloc;
  decltype(&near_heap_destroy) destroy;
};
Api api{};

template <typename Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) fail(2, "the allocator cannot be asked for memory of a node");
}

void find_api() {
  find(api.malloc_on_node, "near_malloc_on_node");
  find(api.aligned_alloc_on_node, "near_aligned_alloc_on_node");
  find(api.create_on_node, "near_heap_create_on_node");
  find(api.create_interleaved, "near_heap_create_interleaved");
  find(api.heap_malloc, "near_heap_malloc");
  find(api.heap_aligned_alloc, "near_heap_aligned_alloc");
  find(api.destroy, "near_heap_destroy");
}

Block* blocks = nullptr;
size_t block_count = 0;

void keep(void* address, size_t size, unsigned node) {
  if (block_count == kMostBlocks) fail(1, "too many blocks");
  const auto mark = static_cast<unsigned char>(block_count % 250 + 1);
  blocks[block_count++] = marked(address, size, static_cast<int>(node), mark);
}

// Blocks of all kinds from two functions: of a size, and of an alignment and a size.
template <typename Allocate, typename AllocateAligned>
void allocate_kinds(unsigned node, Allocate allocate, AllocateAligned allocate_aligned) {
  for (const size_t size : kSizes) keep(allocate(size), size, node);
  for (const size_t size : kAlignments) keep(allocate_aligned(size, size), size, node);
}

void allocate_by_number(unsigned node, unsigned flags) {
  const auto number = static_cast<int>(node);
  allocate_kinds(
      node, [&](size_t size) { return api.malloc_on_node(size, number, flags); },
      [&](size_t alignment, size_t size) {
        return api.aligned_alloc_on_node(alignment, size, number, flags);
      });
}

void allocate_from(near_heap* heap, unsigned node) {
  allocate_kinds(
      node, [&](size_t size) { return api.heap_malloc(heap, size); },
      [&](size_t alignment, size_t size) { return api.heap_aligned_alloc(heap, alignment, size); });
}

// A round gives each node one block of a size, the first node first.
void allocate_in_turn(near_heap* heap, const std::vector<unsigned>& nodes) {
  for (const size_t size : kSizes) {
    for (const unsigned node : nodes) keep(api.heap_malloc(heap, size), size, node);
  }
}

void audit_all(Audit& audit) {
  for (size_t i = 0; i < block_count; ++i) audit.add(blocks[i]);
  audit.finish();
}

void run(Audit& audit) {
  const std::vector<unsigned> nodes = nodes_with_memory();
  std::vector<near_heap*> heaps;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const unsigned flags = i % 2 == 0 ? 0 : NEAR_STRICT;
    heaps.push_back(api.create_on_node(static_cast<int>(nodes[i]), flags));
    if (heaps.back() == nullptr) fail(1, "no heap");
  }
  uint64_t random = 1;
  near_heap* const interleaved = api.create_interleaved();
  if (interleaved == nullptr) fail(1, "no heap");
  for (const unsigned cpu : cpus_online()) {
    pin_to(cpu);
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const unsigned flags : {0u, NEAR_STRICT}) allocate_by_number(nodes[i], flags);
      allocate_from(heaps[i], nodes[i]);
    }
    allocate_in_turn(interleaved, nodes);
    audit_all(audit);
    block_count = free_half(blocks, block_count, random);
  }
  for (near_heap* heap : heaps) api.destroy(heap);
  api.destroy(interleaved);
  audit_all(audit);
}

}  // namespace

int main() {
  find_api();
  blocks = table<Block>(kMostBlocks);
  Audit audit;
  run(audit);
  const near_stats stats = allocator_stats();
  std::printf("{");
  audit.print();
  std::printf(", \"nodes\": %lu, \"spills\": %lu, \"bind_refused\": %lu}\n",
              static_cast<unsigned long>(stats.nodes), static_cast<unsigned long>(stats.spills),
              static_cast<unsigned long>(stats.bind_refused));
  return 0;
}
