#include "designs/super/socket_cache.h"

#include "designs/shared/machine.h"
#include "designs/super/chunk_table.h"
#include "designs/super/global_cache.h"

namespace near::design::super {

SocketCache* socket_caches = nullptr;
unsigned socket_cache_count = 0;

bool start_socket_caches() {
  if (!kVariant.per_socket) return true;
  const unsigned count = design::topology().count * kBins;
  const unsigned depth = settings.socket_lists;
  auto* lists = room.take_for<BlockList>(size_t{count} * depth);
  auto* caches = room.take_for<SocketCache>(count);
  if (lists == nullptr || caches == nullptr) return false;
  for (unsigned i = 0; i < count; i++) {
    const unsigned bin = i % kBins;
    new (&caches[i]) SocketCache;
    caches[i].start(bin, lists + size_t{i} * depth,
                    static_cast<uint32_t>(div_up(settings.list_bytes, kSizes[bin])));
  }
  socket_caches = caches;
  socket_cache_count = count;
  return true;
}

void SocketCache::start(unsigned bin, BlockList* lists, uint32_t full) {
  bin_ = bin;
  lists_.start(lists, settings.socket_lists, full);
}

BlockList SocketCache::take() {
  const Section section(lock_);
  accesses_++;
  if (lists_.empty()) global_caches[bin_].take(lists_, lists_.capacity());
  return lists_.empty() ? BlockList() : lists_.take();
}

bool SocketCache::put(const BlockList& list) {
  const Section section(lock_);
  accesses_++;
  if (!lists_.has_room()) {
    global_caches[bin_].put(lists_, static_cast<unsigned>(div_up(lists_.capacity(), 2)));
  }
  return lists_.put(list);
}

void SocketCache::trim() {
  const Section section(lock_);
  while (!lists_.empty()) global_caches[bin_].free(lists_.take());
}

SocketCache::Totals SocketCache::totals() {
  const LockGuard guard(lock_);
  return {.accesses = accesses_, .cached = lists_.blocks()};
}

}  // namespace near::design::super
