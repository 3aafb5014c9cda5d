#include "designs/hoard/superblock.h"

#include "designs/hoard/size_class.h"
#include "designs/hoard/superblocks.h"

namespace near::design::hoard {

char* Superblock::start() const {
  const auto address = reinterpret_cast<uintptr_t>(this);
  const uintptr_t chunk = align_down(address, Superblocks::kChunk);
  return reinterpret_cast<char*>(
      chunk + ((address - chunk) / sizeof(Superblock) << settings.superblock_shift));
}

void Superblock::prepare(unsigned new_class) {
  size_class = static_cast<uint8_t>(new_class);
  size = size_classes.size(new_class);
  capacity = static_cast<uint32_t>(settings.superblock() / size);
  purged = false;
  has_inner_blocks.store(false, kRelaxed);  // relaxed: no block of it is handed out
  free = nullptr;
  for (size_t i = capacity; i-- > 0;) {
    auto* block = reinterpret_cast<Block*>(start() + i * size);
    block->next = free;
    free = block;
  }
}

Freed Superblock::push(void* address) {
  auto* block = reinterpret_cast<Block*>(block_around(address));
  // relaxed: the caller received the address after it was set
  if (block != address && !has_inner_blocks.load(kRelaxed)) return Freed::no_block;
  if (reinterpret_cast<char*>(block) + size > start() + settings.superblock()) {
    return Freed::no_block;
  }
  if (used == 0 || free == block) return Freed::twice;
  block->next = free;
  free = block;
  used--;
  return Freed::yes;
}

}  // namespace near::design::hoard
