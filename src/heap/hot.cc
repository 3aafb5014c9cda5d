// When hot spans of the small classes leave.
//
// Small blocks are not counted when they are allocated, so nobody knows when a hot span is all free
// unless its bin is walked. That is done after as many frees as blocks were live: if none was
// allocated since, the span leaves at the free of its last block. Each walk puts the next one off,
// until a fresh start: when the heap has shrunk, or the purge thread says that time has passed. In
// a heap that has shrunk a span that is half free cools as well, so that its free pages can leave.
// Who may touch it: the heap's owner, its lock held.
#include <iterator>

#include "base/bits.h"
#include "heap/heap.h"

namespace near {
namespace {

// Frees between two looks at a hot span at least, by how many looks there were.
constexpr uint16_t kPatience[] = {1, 1, 16, 256, 4096};
constexpr uint8_t kMaxLooks = std::size(kPatience) - 1;

}  // namespace

void Heap::await_look(Span& span, uint32_t live) {
  const uint32_t patience = kPatience[looks_[span.size_class]];
  span.frees.await(static_cast<uint32_t>(max_of(live, patience)));
  span.counted = 0;
}

void Heap::look_at_hot(Span& span) {
  uint8_t& looks = looks_[span.size_class];
  count_frees(span);
  if (looks == kMaxLooks) return await_look(span, FreeCount::kMaxAwaited);
  looks++;
  const uint32_t capacity = span.shape().capacity;
  const uint32_t free = count_hot_free(span.size_class);
  if (free == capacity || (is_sparse(span, free) && has_shrunk())) {
    cool_hot(span.size_class, free);
  } else {
    await_look(span, capacity - free);
  }
}

// Forgets earlier looks and looks now: some time has passed, or the heap has shrunk.
void Heap::look_at_all_hot() {
  look_again_.store(false, kRelaxed);  // relaxed: a wish
  looked_when_ = events_;
  if (shrunk_ <= shrunk_before_) shrunk_ -= shrunk_ / 4;  // it was some time ago
  shrunk_before_ = shrunk_;
  for (unsigned c = 0; c < kSmallClasses; c++) {
    looks_[c] = 0;
    if (hot_[c] != nullptr) look_at_hot(*hot_[c]);
  }
}

}  // namespace near
