// The commands of fuzz_api that make, resize and free blocks.
#include <bit>
#include <cerrno>
#include <vector>

#include "fuzz/api_calls.h"
#include "fuzz/api_player.h"
#include "platform/os.h"

namespace near_test::fuzz {
namespace {

bool is_power_of_two(size_t number) { return std::has_single_bit(number); }

void expect_invalid(const void* block) {
  demand(block == nullptr && errno == EINVAL, "a wrong argument gives %p, errno %d", block, errno);
}

// Sizes and alignments both need room: an alignment may be as impossible as a size.
size_t wanted(size_t alignment, size_t size) { return std::max(alignment, size); }

}  // namespace

void Player::allocate() {
  const size_t slot = draw_slot();
  const size_t size = draw_size();
  note("  malloc(%zu) for %zu", size, slot);
  if (make_room(slot, size)) add(slot, call_malloc(size), {size, 0, Maker::sized});
}

void Player::allocate_zeroed() {
  const size_t slot = draw_slot();
  const size_t count = draw_size();
  const size_t size = 1 + bytes_.u8();
  size_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(count, size, &bytes);
  note("  calloc(%zu, %zu) for %zu", count, size, slot);
  if (overflows) bytes = SIZE_MAX;
  if (make_room(slot, bytes)) add(slot, call_calloc(count, size), {bytes, 0, Maker::sized, true});
}

void Player::resize() {
  const size_t slot = draw_slot();
  const size_t size = draw_size();
  note("  realloc %zu to %zu", slot, size);
  if (!table_.has_room(size)) return;
  if (table_.at(slot).start == nullptr) {
    errno = 0;
    return add(slot, call_realloc(nullptr, size), {size, 0, Maker::sized});
  }
  if (size == 0) {
    demand(near_realloc(table_.remove(slot), 0) == nullptr, "realloc to 0 bytes gives a block");
    return;
  }
  errno = 0;
  table_.resized(slot, call_realloc(table_.at(slot).start, size), size);
}

void Player::resize_array() {
  const size_t slot = draw_slot();
  const size_t count = draw_size();
  const size_t size = 1 + bytes_.u8();
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  note("  reallocarray %zu to %zu x %zu", slot, count, size);
  if (bytes == 0 || !table_.has_room(bytes) || table_.at(slot).start == nullptr) return;
  errno = 0;
  table_.resized(slot, near_reallocarray(table_.at(slot).start, count, size), bytes);
}

void Player::allocate_aligned() {
  const size_t slot = draw_slot();
  const size_t alignment = draw_alignment();
  const size_t size = draw_size();
  note("  aligned_alloc(%zu, %zu) for %zu", alignment, size, slot);
  if (!make_room(slot, wanted(alignment, size)) && is_power_of_two(alignment)) return;
  void* block = call_aligned_alloc(alignment, size);
  if (!is_power_of_two(alignment)) return expect_invalid(block);
  const bool impossible = alignment >= Table::kImpossible;
  add(slot, block, {impossible ? alignment : size, alignment, Maker::aligned});
}

void Player::allocate_posix() {
  const size_t slot = draw_slot();
  const size_t alignment = draw_alignment();
  const size_t size = draw_size();
  note("  posix_memalign(%zu, %zu) for %zu", alignment, size, slot);
  if (!make_room(slot, wanted(alignment, size))) return;
  char untouched = 0;
  void* block = &untouched;
  errno = 77;
  const int error = near_posix_memalign(&block, alignment, size);
  demand(errno == (error == ENOMEM ? ENOMEM : 77), "posix_memalign: errno %d", errno);
  demand((error == 0) == (block != &untouched), "posix_memalign: %d, %p", error, block);
  const bool is_wrong = !is_power_of_two(alignment) || alignment % sizeof(void*) != 0;
  if (is_wrong) {
    demand(error == EINVAL, "posix_memalign: %d", error);
    return;
  }
  errno = error;
  const bool impossible = alignment >= Table::kImpossible;
  add(slot, error == 0 ? block : nullptr, {impossible ? alignment : size, alignment});
}

void Player::allocate_memalign() {
  const size_t slot = draw_slot();
  const size_t alignment = draw_alignment();
  const size_t size = draw_size();
  note("  memalign(%zu, %zu) for %zu", alignment, size, slot);
  if (!make_room(slot, wanted(alignment, size))) return;
  void* block = near_memalign(alignment, size);
  if (alignment > SIZE_MAX / 2 + 1) return expect_invalid(block);
  const bool impossible = alignment >= Table::kImpossible;
  add(slot, block, {impossible ? alignment : size, std::bit_ceil(alignment)});
}

void Player::allocate_pages() {
  const size_t slot = draw_slot();
  const size_t size = draw_size();
  const bool whole = bytes_.below(2) != 0;
  const size_t page = near::os::page_size();
  note("  %s(%zu) for %zu", whole ? "pvalloc" : "valloc", size, slot);
  if (!make_room(slot, size)) return;
  if (!whole) return add(slot, near_valloc(size), {size, page});
  const size_t rounded =
      size >= Table::kImpossible ? size : std::max((size + page - 1) / page, 1UL) * page;
  add(slot, near_pvalloc(size), {rounded, page});
}

// Where a block of a node must be; it may be elsewhere only when room is short.
void Player::expect_node(const void* block, int node, unsigned flags) {
  if (block == nullptr) return;
  const int found = near_node_of(block);
  if (node < 0) {
    demand(found >= 0 && found < world().nodes, "a block of node %d", found);
  } else if (flags == NEAR_STRICT || (world().is_roomy && !table_.may_refuse())) {
    demand(found == node, "a block of node %d, not %d", found, node);
  }
}

void Player::allocate_on_node() {
  const size_t slot = draw_slot();
  const bool aligned = bytes_.below(2) != 0;
  const size_t alignment = aligned ? draw_alignment() : 16;
  const size_t size = draw_size();
  const int node = draw_node();
  const unsigned flags = draw_flags();
  note("  on node %d, flags %u: (%zu, %zu) for %zu", node, flags, alignment, size, slot);
  if (!make_room(slot, wanted(alignment, size))) return;
  void* block = aligned ? near_aligned_alloc_on_node(alignment, size, node, flags)
                        : call_malloc_on_node(size, node, flags);
  const bool is_wrong =
      node < 0 || node >= world().nodes || flags > NEAR_STRICT || !is_power_of_two(alignment);
  if (is_wrong) return expect_invalid(block);
  const bool impossible = alignment >= Table::kImpossible;
  add(slot, block, {impossible ? alignment : size, alignment});
  expect_node(block, node, flags);
}

void Player::allocate_from_heap() {
  const size_t slot = draw_slot();
  const Bound& bound = heaps_[bytes_.below(kHeaps)];
  const bool aligned = bytes_.below(2) != 0;
  const size_t alignment = aligned ? draw_alignment() : 16;
  const size_t size = draw_size();
  note("  from a heap of node %d: (%zu, %zu) for %zu", bound.node, alignment, size, slot);
  if (bound.heap == nullptr || !make_room(slot, wanted(alignment, size))) return;
  void* block = aligned ? near_heap_aligned_alloc(bound.heap, alignment, size)
                        : near_heap_malloc(bound.heap, size);
  if (!is_power_of_two(alignment)) return expect_invalid(block);
  const bool impossible = alignment >= Table::kImpossible;
  add(slot, block, {impossible ? alignment : size, alignment});
  expect_node(block, bound.node, bound.flags);
}

// Spans fill and empty by many blocks of a size.
void Player::allocate_many() {
  const size_t first = draw_slot();
  const size_t count = 1 + bytes_.u8();
  const size_t size = draw_size();
  note("  %zu times malloc(%zu) from %zu", count, size, first);
  for (size_t i = 0; i < count && size < Table::kImpossible; i++) {
    const size_t slot = (first + i) % Table::kSlots;
    if (make_room(slot, size)) add(slot, call_malloc(size), {size, 0, Maker::sized});
  }
}

void Player::free_one() {
  const size_t slot = draw_slot();
  note("  free %zu", slot);
  free_slot(slot);
}

void Player::free_with_size() {
  const size_t slot = draw_slot();
  note("  free %zu with its size", slot);
  const Slot before = table_.at(slot);
  void* block = table_.remove(slot);
  errno = 77;
  if (before.maker == Maker::sized) {
    near_free_sized(block, before.size);
  } else if (before.maker == Maker::aligned) {
    near_free_aligned_sized(block, before.alignment, before.size);
  } else {
    near_free(block);
  }
  demand(errno == 77, "a sized free changed errno");
}

void Player::free_many() {
  const size_t first = draw_slot();
  const size_t count = 1 + bytes_.u8();
  const size_t step = 1 + bytes_.below(4);
  note("  free %zu from %zu, step %zu", count, first, step);
  for (size_t i = 0; i < count; i++) free_slot((first + i * step) % Table::kSlots);
}

void Player::free_batch() {
  const size_t first = draw_slot();
  const size_t count = 1 + bytes_.u8();
  const size_t step = 1 + 2 * bytes_.below(4);  // odd: no slot comes twice
  note("  free a batch of %zu from %zu, step %zu", count, first, step);
  std::vector<void*> blocks;
  for (size_t i = 0; i < count; i++)
    blocks.push_back(table_.remove((first + i * step) % Table::kSlots));
  errno = 77;
  const size_t groups = near_free_batch(blocks.data(), blocks.size());
  demand(errno == 77, "a batch changed errno");
  demand(groups <= count, "%zu groups of %zu blocks", groups, count);
}

}  // namespace near_test::fuzz
