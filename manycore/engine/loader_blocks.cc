#include "engine/loader_blocks.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/engine.h"

namespace near::manycore {
namespace {

// Blocks of a power of two of bytes, each behind a header; a free block is in the list of its size.
struct alignas(16) Header {
  size_t bytes;
  Header* next;
};

constexpr size_t kRoom = size_t{64} << 20;
constexpr size_t kSizes = 64;

char* room = nullptr;
size_t used = 0;
Header* unused[kSizes];

Header* header(const void* address) {
  return reinterpret_cast<Header*>(const_cast<void*>(address)) - 1;
}

}  // namespace

void* allocate_loader_block(size_t bytes) {
  const size_t size = std::bit_ceil(bytes + sizeof(Header));
  Header*& list = unused[std::countr_zero(size)];
  Header* block = list;
  if (block != nullptr) {
    list = block->next;
  } else {
    if (room == nullptr) room = static_cast<char*>(reserve(kRoom));
    if (size > kRoom - used) fail("the threads need more than %zu bytes of the loader", kRoom);
    block = reinterpret_cast<Header*>(room + used);
    used += size;
  }
  block->bytes = size - sizeof(Header);
  return std::memset(block + 1, 0, block->bytes);
}

bool is_loader_block(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(room) < used;
}

size_t loader_block_size(const void* address) { return header(address)->bytes; }

void free_loader_block(void* address) {
  Header* const block = header(address);
  Header*& list = unused[std::countr_zero(block->bytes + sizeof(Header))];
  block->next = list;
  list = block;
}

}  // namespace near::manycore
