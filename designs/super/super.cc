#include "designs/super/super.h"

#include <bit>
#include <cstring>

#include "designs/shared/life.h"
#include "designs/super/chunk_table.h"
#include "designs/super/cpu_cache.h"
#include "designs/super/global_cache.h"
#include "designs/super/huge.h"
#include "designs/super/socket_cache.h"

namespace near::design::super {
namespace {

constexpr size_t kLargestPowerOfTwo = 128 * kKiB;  // among the bins

bool is_small_or_large(uint32_t entry) { return entry - 1 < kBins; }

// Large blocks begin a random number of cache lines after the start of their bin's block, so that
// equal parts of many blocks do not compete for the same lines. [Kuszmaul15 §2]
void* take_large(ThreadCache& cache, size_t size) {
  const size_t offset = min_of(cache.next_line() * kLine, align_down(kLargest - size, kLine));
  Block* block = cache.take(bin_from(kSmallBins, size + offset));
  return block != nullptr ? reinterpret_cast<char*>(block) + offset : nullptr;
}

void* take(ThreadCache& cache, size_t size) {
  if (size <= kLargestSmall) return cache.take(static_cast<unsigned>(small_bin(size)));
  return take_large(cache, size);
}

void* take_aligned(ThreadCache& cache, size_t alignment, size_t size) {
  const size_t whole = max_of(std::bit_ceil(max_of(size, 1)), alignment);
  if (whole <= kLargestPowerOfTwo) return cache.take(bin_from(0, whole));
  Block* block = cache.take(bin_from(kSmallBins, size + alignment));
  return reinterpret_cast<void*>(align_up(reinterpret_cast<uintptr_t>(block), alignment));
}

// Frees a block of a small or large bin. False if it is known to be free.
bool put(unsigned bin, void* block) {
  return have_cache() ? current->put(bin, static_cast<Block*>(block))
                      : global_caches[bin].free(block);
}

bool start_global_caches() {
  const size_t depth = settings.global_lists;
  size_t levels = 0;
  for (const Bin& bin : kBinTable) levels += bin.per_folio + 1;
  auto* lists = room.take_for<BlockList>(kBins * depth);
  auto* by_free = room.take_for<List<Folio>>(levels);
  if (lists == nullptr || by_free == nullptr) return false;
  for (unsigned bin = 0; bin < kBins; bin++) {
    global_caches[bin].start(bin, lists + bin * depth, by_free);
    by_free += kBinTable[bin].per_folio + 1;
  }
  return true;
}

size_t folios_purged() {
  size_t sum = 0;
  for (GlobalCache& cache : global_caches) sum += cache.totals().folios.purged;
  return sum;
}

}  // namespace

bool Super::start() {
  apply_switches();
  return ChunkTable::start() && start_global_caches() && start_socket_caches() &&
         start_cpu_caches();
}

NEAR_COLD void* allocate_slow(size_t size) {
  if (size > kLargest) return design::start() ? huge.take(size, 1) : nullptr;
  if (have_cache()) return take(*current, size);
  const design::Stay stay;
  return stay ? take(*current, size) : nullptr;
}

void* Super::allocate_aligned(size_t alignment, size_t size) {
  if (alignment <= kLine && size > 256 && size <= kLargestSmall) return allocate(size);
  if (size > kLargest || size + alignment > kLargest) {
    return design::start() ? huge.take(size, alignment) : nullptr;
  }
  if (have_cache()) return take_aligned(*current, alignment, size);
  const design::Stay stay;
  return stay ? take_aligned(*current, alignment, size) : nullptr;
}

void* Super::allocate_zeroed(size_t size) {
  if (size > kLargest) return design::start() ? huge.take_zeroed(size) : nullptr;
  void* block = allocate(size);
  return block != nullptr ? memset(block, 0, size) : nullptr;
}

NEAR_COLD void deallocate_slow(void* block) {
  const size_t bin = size_t{ChunkTable::entry_of(block)} - 1;
  if (bin >= kBins) {
    if (!huge.put(block)) report_invalid(block, "it is not a block");
    return;
  }
  char* start = block_around(kBinTable[bin], block);
  if (start == nullptr || (bin < kSmallBins && start != block)) {
    return report_invalid(block, "it is not a block");
  }
  bool freed = false;
  if (have_cache()) {
    freed = put(static_cast<unsigned>(bin), start);
  } else {
    const design::Stay stay(design::Errand::free);
    freed = put(static_cast<unsigned>(bin), start);
  }
  if (!freed) report_invalid(block, "it was freed before");
}

size_t Super::usable_size(const void* block) {
  if (!arena.contains(block)) return 0;
  const uint32_t entry = ChunkTable::entry_of(block);
  if (!is_small_or_large(entry)) return huge.usable(block);
  const unsigned bin = entry - 1;
  const char* start = block_around(kBinTable[bin], block);
  if (start == nullptr || (bin < kSmallBins && start != block)) return 0;
  return kSizes[bin] - static_cast<size_t>(static_cast<const char*>(block) - start);
}

bool Super::resize(void* block, size_t size) {
  return !is_small_or_large(ChunkTable::entry_of(block)) && huge.grow(block, size);
}

bool Super::trim() {
  const size_t before = folios_purged();
  if (have_cache()) current->flush();
  for (unsigned i = 0; i < cpu_cache_count; i++) cpu_caches[i].trim();
  for (unsigned i = 0; i < socket_cache_count; i++) socket_caches[i].trim();
  const bool any = huge.trim();
  for (GlobalCache& cache : global_caches) cache.trim();
  return any || folios_purged() > before;
}

design::Footprint Super::footprint() {
  size_t cached[kBins] = {};
  for (unsigned i = 0; i < cpu_cache_count; i++) cached[i % kBins] += cpu_caches[i].totals().cached;
  for (unsigned i = 0; i < socket_cache_count; i++) {
    cached[i % kBins] += socket_caches[i].totals().cached;
  }
  const Huge::Totals runs = huge.totals();
  size_t in_use = runs.in_use;
  for (unsigned bin = 0; bin < kBins; bin++) {
    const GlobalCache::Totals totals = global_caches[bin].totals();
    cached[bin] += totals.cached + cached_by_threads(bin);
    // Blocks may move between caches while they are counted.
    in_use += (totals.folios.in_use - min_of(cached[bin], totals.folios.in_use)) * kSizes[bin];
  }
  return {.reserved = arena.size(),
          .committed = arena.committed(),
          .in_use = in_use,
          .large = runs.in_use,
          .large_blocks = runs.blocks};
}

size_t Super::counters(Counter* out) {
  GlobalCache::Totals all{};
  for (GlobalCache& cache : global_caches) {
    const GlobalCache::Totals one = cache.totals();
    all.accesses += one.accesses;
    all.single += one.single;
    all.filled += one.filled;
    all.drained += one.drained;
    all.freed += one.freed;
    all.folios.chunks += one.folios.chunks;
    all.folios.purged += one.folios.purged;
  }
  size_t socket_accesses = 0;
  for (unsigned i = 0; i < socket_cache_count; i++) {
    socket_accesses += socket_caches[i].totals().accesses;
  }
  CpuCache::Totals of_cpus{};
  for (unsigned i = 0; i < cpu_cache_count; i++) {
    const CpuCache::Totals one = cpu_caches[i].totals();
    of_cpus.accesses += one.accesses;
    of_cpus.walked += one.walked;
  }
  const Huge::Totals runs = huge.totals();
  size_t n = 0;
  out[n++] = {"cpu_accesses", of_cpus.accesses};
  out[n++] = {"socket_accesses", socket_accesses};
  out[n++] = {"global_accesses", all.accesses};
  out[n++] = {"links_walked", of_cpus.walked};
  out[n++] = {"blocks_allocated_singly", all.single};
  out[n++] = {"blocks_filled", all.filled};
  out[n++] = {"blocks_drained", all.drained};
  out[n++] = {"blocks_freed_to_folios", all.freed};
  out[n++] = {"chunks_of_bins", all.folios.chunks};
  out[n++] = {"folios_purged", all.folios.purged};
  out[n++] = {"huge_runs_taken", runs.taken};
  out[n++] = {"huge_runs_reused", runs.reused};
  out[n++] = {"thread_caches", threads.made()};
  out[n++] = {"transactions_given_up", transactions_given_up()};
  return n;
}

void Super::for_each_lock(void (*visit)(Mutex&)) {
  for (unsigned i = 0; i < cpu_cache_count; i++) visit(cpu_caches[i].lock());
  for (unsigned i = 0; i < socket_cache_count; i++) visit(socket_caches[i].lock());
  for (GlobalCache& cache : global_caches) visit(cache.lock());
  visit(threads.lock());
  visit(huge.lock());
}

void Super::unlock_after_fork(bool child) {
  if (child) threads.adopt_others(current);
  Defaults::unlock_after_fork(child);
}

}  // namespace near::design::super
