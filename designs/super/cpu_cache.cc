#include "designs/super/cpu_cache.h"

#include "designs/super/chunk_table.h"
#include "designs/super/global_cache.h"
#include "designs/super/socket_cache.h"

namespace near::design::super {

CpuCache* cpu_caches = nullptr;
unsigned cpu_cache_count = 0;
unsigned cpus = 1;

namespace {

constexpr unsigned kMostCpus = 128;

BlockList take_above(unsigned bin, unsigned socket) {
  if constexpr (kVariant.per_socket) return socket_cache(socket, bin).take();
  return global_caches[bin].take();
}

bool put_above(unsigned bin, unsigned socket, const BlockList& list) {
  if constexpr (kVariant.per_socket) return socket_cache(socket, bin).put(list);
  return global_caches[bin].put(list);
}

}  // namespace

bool start_cpu_caches() {
  const auto wanted = static_cast<unsigned>(min_of(settings.processors, kMostCpus));
  const unsigned count = wanted * kBins;
  auto* lists = room.take_for<BlockList>(size_t{count} * settings.cpu_lists);
  auto* caches = room.take_for<CpuCache>(count);
  if (lists == nullptr || caches == nullptr) return false;
  for (unsigned i = 0; i < count; i++) {
    new (&caches[i]) CpuCache;
    caches[i].start(i % kBins, lists + size_t{i} * settings.cpu_lists);
  }
  cpu_caches = caches;
  cpu_cache_count = count;
  cpus = wanted;
  return true;
}

void CpuCache::start(unsigned bin, BlockList* lists) {
  bin_ = bin;
  lists_.start(lists, settings.cpu_lists,
               static_cast<uint32_t>(div_up(settings.list_bytes, kSizes[bin])));
}

bool CpuCache::refill(unsigned socket) {
  accesses_++;
  if (!lists_.empty()) return true;
  const BlockList list = take_above(bin_, socket);
  return !list.empty() && lists_.put(list);
}

bool CpuCache::make_room(unsigned socket) {
  accesses_++;
  if (lists_.has_room()) return true;
  const BlockList first = lists_.take_full();
  if (put_above(bin_, socket, first)) return true;
  lists_.put(first);
  return false;
}

bool CpuCache::fill(ThreadList& list, unsigned socket) {
  const Section section(lock_);
  if (!refill(socket)) return false;
  const uint32_t full = thread_list_full(bin_);
  if (kVariant.equal_lists || lists_.last().count <= full) {
    list.put(lists_.take());
  } else {
    list.put(lists_.last().split(full));
    walked_ += full;
  }
  return true;
}

bool CpuCache::empty(ThreadList& list, unsigned socket) {
  const Section section(lock_);
  return make_room(socket) && lists_.put(list.take());
}

Block* CpuCache::take_block(unsigned socket) {
  const Section section(lock_);
  if (!refill(socket)) return nullptr;
  Block* block = lists_.last().pop();
  if (lists_.last().empty()) lists_.take();
  return block;
}

bool CpuCache::put_block(Block* block, unsigned socket) {
  const Section section(lock_);
  return make_room(socket) && lists_.put(BlockList::of(block));
}

void CpuCache::trim() {
  const Section section(lock_);
  while (!lists_.empty()) global_caches[bin_].free(lists_.take());
}

CpuCache::Totals CpuCache::totals() {
  const LockGuard guard(lock_);
  return {.accesses = accesses_, .walked = walked_, .cached = lists_.blocks()};
}

}  // namespace near::design::super
