// What virtual threads ask of a node that they name, and of heaps that they make.
#include <cerrno>

#include "nearmalloc/nearmalloc.h"
#include "numa/simulator_play.h"
#include "platform/os.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

constexpr size_t kMostBoundHeaps = 5;

int kernel_number(unsigned node) { return near::topology.kernel_id[node]; }

}  // namespace

void Simulation::allocate_on_node() {
  if (is_full()) return free_some(false);
  const auto node = static_cast<unsigned>(random_.below(near::topology.count));
  const bool strict = random_.below(2) == 0;
  const size_t size = draw_size();
  const size_t alignment = size_t{16} << random_.below(8);
  for (size_t left = draw_count(size); left > 0; left--) {
    const Placement::Before before = Placement::look();
    errno = 0;
    void* block =
        near_aligned_alloc_on_node(alignment, size, kernel_number(node), strict ? NEAR_STRICT : 0);
    placement_.check_placed(before, block, node, strict);
    if (block == nullptr) return model_.journal.note("refused", {size});
    model_.journal.count(Event::placed_block);
    keep(block, size, alignment);
  }
}

// Not while memory is refused: a half-made heap leaves no handle, and frees what the model does not
// see.
void Simulation::make_bound_heap() {
  if (model_.bound_heaps.size() == kMostBoundHeaps || refused_until_ != 0) return;
  const unsigned all = near::topology.count;
  const auto node = static_cast<unsigned>(random_.below(all + 1));  // `all`: interleaved
  const bool strict = node < all && random_.below(2) == 0;
  const size_t limit = near::os::limit();
  fake_os::set_address_space_limit(SIZE_MAX);
  const Placement::Before before = Placement::look();
  near_heap* handle = node == all
                          ? near_heap_create_interleaved()
                          : near_heap_create_on_node(kernel_number(node), strict ? NEAR_STRICT : 0);
  placement_.check_block(me(), before, handle, sizeof(void*), false);
  fake_os::set_address_space_limit(limit);
  model_.journal.demand(handle != nullptr, "a heap was refused");
  model_.record_place("heap at", handle, node);
  model_.journal.count(Event::bound_heap);
  if (node == all) {
    model_.bound_heaps.push_back({handle, 0, all, false});
  } else {
    model_.bound_heaps.push_back({handle, node, 1, strict});
  }
}

void Simulation::allocate_from_bound() {
  if (is_full()) return free_some(false);
  if (model_.bound_heaps.empty()) return make_bound_heap();
  BoundHeap& heap = model_.bound_heaps[random_.below(model_.bound_heaps.size())];
  const size_t size = draw_size();
  for (size_t left = draw_count(size); left > 0; left--) {
    const unsigned node = heap.first + heap.turn++ % heap.count;
    const Placement::Before before = Placement::look();
    errno = 0;
    void* block = near_heap_malloc(heap.handle, size);
    placement_.check_placed(before, block, node, heap.strict);
    if (block == nullptr) return model_.journal.note("refused", {size});
    model_.journal.count(Event::bound_block);
    keep(block, size, 8);
  }
}

void Simulation::destroy_bound_heap(size_t index) {
  const BoundHeap heap = model_.bound_heaps[index];
  model_.bound_heaps.erase(model_.bound_heaps.begin() + static_cast<ptrdiff_t>(index));
  model_.record_free(origin_of(heap.handle));
  const Placement::Before before = Placement::look();
  near_heap_destroy(heap.handle);
  placement_.check_other(me(), before, false);
}

void Simulation::end_bound_heap() {
  if (model_.bound_heaps.empty()) return;
  destroy_bound_heap(random_.below(model_.bound_heaps.size()));
}

}  // namespace near_test
