#include "front/large.h"

#include "front/thread.h"
#include "node/memory.h"
#include "platform/os.h"

namespace near {
namespace {

constinit Atomic<size_t> bytes_in_use{0};
constinit Atomic<size_t> blocks_in_use{0};

size_t slices_for(size_t size) { return div_up(size, kSliceSize); }

// relaxed: a statistic
void count(size_t slices) { bytes_in_use.fetch_add(slices << kSliceShift, kRelaxed); }
void discount(size_t slices) {
  bytes_in_use.fetch_sub(slices << kSliceShift, kRelaxed);
}  // relaxed: as above

// True if taking such a span would certainly fail. From kHuge on an attempt may be expensive, so
// this first asks whether the system would refuse.
bool is_hopeless(size_t size, size_t alignment) {
  constexpr size_t kHuge = 64 * kMiB;
  if (slices_for(size) + (alignment >> kSliceShift) > UINT32_MAX / 2) return true;
  return size + alignment >= kHuge && os::refuses(size + alignment);
}

// Makes `span`, which may be null, a large block.
void* make_large(Span* span, size_t size) {
  if (span == nullptr) return nullptr;
  span->kind = SpanKind::large;
  span->asked = size;
  count(span->slices);
  blocks_in_use.fetch_add(1, kRelaxed);  // relaxed: a statistic
  return span->start;
}

}  // namespace

void* allocate_large(size_t size, size_t alignment, bool* zero) {
  if (unlikely(is_inside())) return nullptr;
  start_library();
  if (is_hopeless(size, alignment)) return nullptr;
  bool clean = false;
  if (has_heap()) rehome_if_moved();
  const auto slices = static_cast<uint32_t>(slices_for(size));
  // Not the heap's node: a thread that moved may have to keep its old heap for a while.
  void* block = make_large(take_slices(current_node(), slices, clean, alignment), size);
  if (zero != nullptr) *zero = clean;
  return block;
}

void* allocate_large_at(unsigned node, size_t size, size_t alignment) {
  if (unlikely(is_inside()) || is_hopeless(size, alignment)) return nullptr;
  const auto slices = static_cast<uint32_t>(slices_for(size));
  bool clean = false;
  return make_large(take_slices_at(node, slices, clean, alignment), size);
}

void release_large(Span& span) {
  if (unlikely(is_inside())) return;  // the block is not freed
  discount(span.slices);
  blocks_in_use.fetch_sub(1, kRelaxed);  // relaxed: a statistic
  count_freed(span.node, 1);
  node_of(span).give(&span);
}

bool resize_large(Span& span, size_t size) {
  const size_t slices = slices_for(size);
  if (unlikely(is_inside())) return false;
  if (slices > span.slices) {
    if (is_hopeless(size, 0)) return false;
    const size_t more = slices - span.slices;
    if (!node_of(span).extend(&span, static_cast<uint32_t>(more))) return false;
    count(more);
  } else if (slices < span.slices) {
    discount(span.slices - slices);
    node_of(span).give(&span, static_cast<uint32_t>(slices));
  }
  span.asked = size;
  return true;
}

size_t large_blocks() { return blocks_in_use.load(kRelaxed); }  // relaxed: a statistic

size_t large_bytes() { return bytes_in_use.load(kRelaxed); }  // relaxed: a statistic

}  // namespace near
