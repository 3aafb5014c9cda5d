#include "designs/scalloc/huge.h"

#include <cstdint>

#include "base/bits.h"
#include "designs/shared/ranks.h"
#include "platform/os.h"
#include "sync/mutex.h"

namespace near::design::scalloc {
namespace {

struct alignas(64) Header {
  Header* next;  // in the same place of the table
  char* start;   // of the mapping
  size_t bytes;  // of the mapping

  const char* block() const { return reinterpret_cast<const char*>(this + 1); }
  size_t size() const { return static_cast<size_t>(start + bytes - block()); }
};

constexpr size_t kPlaces = 4096;
constinit Mutex lock{kInnermostRank};
// Guarded by the lock.
Header* table[kPlaces];
HugeUse use;

Header*& place_of(const void* block) {
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(block) >> 12) * 0x9e3779b97f4a7c15;
  return table[mixed >> 52];
}
static_assert(kPlaces == size_t{1} << (64 - 52));

// Called under the lock: the link to the header of the block, or the null at the end.
Header** find(const void* block) {
  Header** link = &place_of(block);
  while (*link != nullptr && (*link)->block() != block) link = &(*link)->next;
  return link;
}

}  // namespace

void* allocate_huge(size_t alignment, size_t size) {
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
  auto* start = static_cast<char*>(os::reserve(bytes, max_of(alignment, page)));
  if (start == nullptr) return nullptr;
  const size_t unused = align_down(in_front - sizeof(Header), page);
  if (!os::commit(start + unused, bytes - unused)) {
    os::unreserve(start, bytes);
    return nullptr;
  }
  char* block = start + in_front;
  auto* header = reinterpret_cast<Header*>(block) - 1;
  *header = {nullptr, start, bytes};
  const LockGuard guard(lock);
  Header*& place = place_of(block);
  header->next = place;
  place = header;
  use.bytes += header->size();
  use.blocks++;
  return block;
}

bool free_huge(void* block) {
  Header* header = nullptr;
  {
    const LockGuard guard(lock);
    Header** link = find(block);
    header = *link;
    if (header == nullptr) return false;
    *link = header->next;
    use.bytes -= header->size();
    use.blocks--;
  }
  os::unreserve(header->start, header->bytes);
  return true;
}

size_t huge_size(const void* block) {
  const LockGuard guard(lock);
  const Header* header = *find(block);
  return header != nullptr ? header->size() : 0;
}

HugeUse huge_use() {
  const LockGuard guard(lock);
  return use;
}

void lock_huge_for_fork() { lock.lock_for_fork(); }
void unlock_huge_after_fork() { lock.unlock_for_fork(); }

}  // namespace near::design::scalloc
