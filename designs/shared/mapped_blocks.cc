#include "designs/shared/mapped_blocks.h"

#include <cstdint>

#include "base/bits.h"
#include "platform/os.h"

namespace near::design {

struct alignas(64) MappedBlocks::Header {
  Header* next;  // in the same place of the table
  char* start;   // of the mapping
  size_t bytes;  // of the mapping

  const char* block() const { return reinterpret_cast<const char*>(this + 1); }
  size_t size() const { return static_cast<size_t>(start + bytes - block()); }
};

MappedBlocks::Header*& MappedBlocks::place_of(const void* block) {
  static_assert(kPlaces == size_t{1} << (64 - 52));
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(block) >> 12) * 0x9e3779b97f4a7c15;
  return table_[mixed >> 52];
}

// Called under the lock: the link to the header of the block, or the null at the end.
MappedBlocks::Header** MappedBlocks::find(const void* block) {
  Header** link = &place_of(block);
  while (*link != nullptr && (*link)->block() != block) link = &(*link)->next;
  return link;
}

// Maps `bytes`, of which the first `unused` stay inaccessible; null if refused.
char* MappedBlocks::map(size_t bytes, size_t alignment, size_t unused) {
  if (unused == 0) return static_cast<char*>(os::map_anywhere(bytes, alignment));
  auto* start = static_cast<char*>(os::reserve(bytes, alignment));
  if (start == nullptr || os::commit(start + unused, bytes - unused)) return start;
  os::unreserve(start, bytes);
  return nullptr;
}

void* MappedBlocks::take(size_t size, size_t alignment) {
  const size_t page = os::page_size();
  size = max_of(size, 1);  // an empty block, too, lies inside its mapping
  alignment = max_of(alignment, alignof(Header));
  // The block starts one alignment after the mapping's start; the header is in between.
  const size_t in_front = max_of(sizeof(Header), alignment);
  size_t bytes = 0;
  if (__builtin_add_overflow(size, in_front + page - 1, &bytes) || bytes > PTRDIFF_MAX) {
    return nullptr;
  }
  bytes = align_down(bytes, page);
  const size_t unused = align_down(in_front - sizeof(Header), page);
  char* start = map(bytes, max_of(alignment, page), unused);
  if (start == nullptr) return nullptr;
  char* block = start + in_front;
  auto* header = reinterpret_cast<Header*>(block) - 1;
  *header = {nullptr, start, bytes};
  const LockGuard guard(lock_);
  Header*& place = place_of(block);
  header->next = place;
  place = header;
  totals_.bytes += header->size();
  totals_.blocks++;
  return block;
}

bool MappedBlocks::put(void* block) {
  Header* header = nullptr;
  {
    const LockGuard guard(lock_);
    Header** link = find(block);
    header = *link;
    if (header == nullptr) return false;
    *link = header->next;
    totals_.bytes -= header->size();
    totals_.blocks--;
  }
  os::unreserve(header->start, header->bytes);
  return true;
}

size_t MappedBlocks::usable(const void* block) {
  const LockGuard guard(lock_);
  const Header* header = *find(block);
  return header != nullptr ? header->size() : 0;
}

MappedBlocks::Totals MappedBlocks::totals() {
  const LockGuard guard(lock_);
  return totals_;
}

}  // namespace near::design
