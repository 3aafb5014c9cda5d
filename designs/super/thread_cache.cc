#include "designs/super/thread_cache.h"

#include "designs/shared/machine.h"
#include "designs/super/chunk_table.h"
#include "designs/super/cpu_cache.h"
#include "designs/super/global_cache.h"
#include "platform/cpu.h"

namespace near::design::super {

constinit ThreadCache no_cache;
__thread ThreadCache* current NEAR_TLS_INITIAL_EXEC = &no_cache;
constinit design::HeapList<ThreadCache> threads{design::kInnerRank};

namespace {

// A thread looks up its processor once in so many calls.
constexpr uint32_t kCallsPerLook = 16;

// Called under the lock of `threads`, which guards the room.
ThreadCache* make_cache() {
  auto* cache = room.take_for<ThreadCache>(1);
  if (cache == nullptr) return nullptr;
  ::new (cache) ThreadCache;
  cache->start();
  return cache;
}

}  // namespace

void ThreadCache::start() {
  for (unsigned bin = 0; bin < kBins; bin++) {
    const uint32_t full = settings.thread_cache ? thread_list_full(bin) : 0;
    Lists& lists = of(bin);
    lists.start(full);
    lists.inverse = kBinTable[bin].inverse;
    lists.first = kBinTable[bin].first;
  }
  random_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(this) >> 6) | 1;
}

uint32_t ThreadCache::next_line() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 17;
  random_ ^= random_ << 5;
  return random_ % 64;
}

void ThreadCache::find_processor() {
  if (calls_++ % kCallsPerLook != 0) return;
  const unsigned cpu = current_cpu();
  cpu_ = cpu % cpus;
  socket_ = design::topology().node_of(cpu);
}

Block* ThreadCache::take_slow(unsigned bin) {
  find_processor();
  if (!settings.thread_cache) return cpu_cache(cpu_, bin).take_block(socket_);
  return of(bin).take([&](ThreadList& list) { return cpu_cache(cpu_, bin).fill(list, socket_); });
}

bool ThreadCache::put_slow(unsigned bin, Block* block) {
  find_processor();
  CpuCache& cache = cpu_cache(cpu_, bin);
  const auto empty = [&](ThreadList& list) { return cache.empty(list, socket_); };
  const bool kept =
      settings.thread_cache ? of(bin).put(block, empty) : cache.put_block(block, socket_);
  return kept || global_caches[bin].free(block);
}

// Gives the list to the processor's cache while there is room; else frees it block by block.
void ThreadCache::flush(unsigned bin, ThreadList& list) {
  if (list.empty() || cpu_cache(cpu_, bin).empty(list, socket_)) return;
  global_caches[bin].free(list.take());
}

void ThreadCache::flush() {
  find_processor();
  for (unsigned bin = 0; bin < kBins; bin++) {
    flush(bin, of(bin).used);
    flush(bin, of(bin).spare);
  }
}

void ThreadCache::recount() {
  for (Lists& lists : by_kind_) lists.recount();
}

void ThreadCache::arrive() {
  calls_ = 0;
  if (!links.is_orphan) return;
  links.is_orphan = false;
  recount();
}

bool enter_cache() {
  ThreadCache* cache = threads.take(make_cache);
  if (cache == nullptr) return false;
  cache->arrive();
  current = cache;
  return true;
}

void leave_cache() {
  ThreadCache* cache = current;
  current = &no_cache;
  cache->flush();
  threads.give(cache);
}

size_t cached_by_threads(unsigned bin) {
  size_t sum = 0;
  threads.for_each([&](const ThreadCache& cache) { sum += cache.cached(bin); });
  return sum;
}

}  // namespace near::design::super
