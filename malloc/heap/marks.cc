#include "heap/marks.h"

#include "span/span.h"

namespace near {

// Invariant: to_mark_ whole bytes come to lists before the byte whose block is the next to be
// marked, and are exponentially distributed given all earlier trials. That holds after bytes were
// counted off, because exponential distances have no memory.
uint32_t Marks::reach_mark(uint32_t size) {
  const auto number = static_cast<uint32_t>(to_mark_ / size + 1);
  draw_distance();
  return number;
}

void Marks::try_all(Span& span) {
  ListWalk walk(span, *span.list);
  const uint32_t size = span.shape().size;
  const uint32_t all = span.shape().capacity;
  uint32_t next = draw(size, all);
  for (uint32_t i = 1; Block* block = walk.next(); i++) {
    block->set_mark(i == next);
    if (i != next) continue;
    const uint32_t more = draw(size, all);
    next = more == 0 ? 0 : i + more;
  }
  span.tried = run_ & kRuns;  // where the list is damaged, a pop finds it
}

// Follows links only as far as the last mark.
void Marks::try_first(const Span& span, Block* block, uint32_t count) {
  while (block != nullptr && count > 0) {
    const uint32_t number = draw(span.shape().size, count);
    if (number == 0) return;
    for (uint32_t i = 1; i < number && block != nullptr; i++) block = block->next();
    if (block == nullptr) return;
    block->set_mark(true);
    block = block->next();
    count -= number;
  }
}

void Marks::end_at_mark(Span& span) {
  if (!has_tried(span)) return;
  const uint32_t frees = span.frees.remaining();
  const uint32_t to_mark = draw(span.shape().size, frees);
  if (to_mark == 0) return;
  span.after_mark = static_cast<uint16_t>(frees - to_mark + 1);
  const uint32_t freed = span.frees.freed();
  span.frees.set(freed, freed + to_mark);
}

uint32_t Marks::mark_at_end(Span& span) {
  const uint32_t beyond = beyond_;
  const uint32_t after = span.after_mark;
  span.after_mark = 0;
  if (has_tried(span)) {
    Block* block = span.list->front();
    for (uint32_t i = 0; i < beyond && block != nullptr; i++) block = block->next();
    if (after > 0 && block != nullptr) block->set_mark(true);
    try_first(span, span.list->front(), beyond);
  }
  return after > 1 + beyond ? after - 1 - beyond : 0;
}

}  // namespace near
