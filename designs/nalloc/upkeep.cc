// What a heap does when its thread ends or memory is to be given back, and its check for tests.
#include "designs/nalloc/heap.h"

namespace near::design::nalloc {

void Heap::collect() {
  for (auto& stack : stacks_) {
    for (Slab *slab = stack.front(), *next = nullptr; slab != nullptr; slab = next) {
      next = slab->next;
      const auto chain = slab->wayward().popall(slab->names());
      for (Block *block = chain.first, *after = nullptr; block != nullptr; block = after) {
        after = block->next;
        slab->push(block);
      }
      if (slab->is_whole()) clean(slab);
    }
  }
  coalescing_.collect();
}

bool Heap::check() const {
  for (const auto& stack : stacks_) {
    for (Slab* slab = stack.front(); slab != nullptr; slab = slab->next) {
      uint32_t free = static_cast<uint32_t>(slab->end - slab->first()) / slab->size;
      for (const Block* block = slab->top; block != nullptr; block = block->next) free++;
      if (slab->host != this || slab->free == 0 || slab->free != free) return false;
      if (slab->free + slab->wayward().size() > slab->capacity) return false;
    }
  }
  return true;
}

}  // namespace near::design::nalloc
