#include "allocator_events.h"

#include <dlfcn.h>
#include <nearmalloc/nearmalloc.h>

#include <cstdio>
#include <cstdlib>

namespace workload {
namespace {

// jemalloc's mallctl(3), found at run time.
using Mallctl = int (*)(const char* name, void* old, size_t* old_size, void* to, size_t to_size);

constexpr unsigned kAllArenas = 4096;  // MALLCTL_ARENAS_ALL

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

uint64_t bin_counter(Mallctl mallctl, unsigned bin, const char* name) {
  char path[96];
  std::snprintf(path, sizeof path, "stats.arenas.%u.bins.%u.%s", kAllArenas, bin, name);
  uint64_t value = 0;
  size_t size = sizeof value;
  return mallctl(path, &value, &size, nullptr, 0) == 0 ? value : 0;
}

}  // namespace

void AllocatorEvents::Counters::add(const char* key, uint64_t value) {
  keys[used] = key;
  values[used++] = value;
}

void AllocatorEvents::read_jemalloc(Counters& out) {
  const Mallctl mallctl = find<int(const char*, void*, size_t*, void*, size_t)>("mallctl");
  unsigned bins = 0;
  size_t size = sizeof bins;
  uint64_t epoch = 1;  // writing it makes jemalloc sum its counters up
  if (mallctl == nullptr || mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) != 0 ||
      mallctl("arenas.nbins", &bins, &size, nullptr, 0) != 0) {
    return;
  }
  uint64_t flushes = 0, fills = 0, locks = 0, waits = 0;
  for (unsigned bin = 0; bin < bins; ++bin) {
    flushes += bin_counter(mallctl, bin, "nflushes");
    fills += bin_counter(mallctl, bin, "nfills");
    locks += bin_counter(mallctl, bin, "mutex.num_ops");
    waits += bin_counter(mallctl, bin, "mutex.num_wait");
  }
  out.add("flushes_per_1000", flushes);
  out.add("fills_per_1000", fills);
  out.add("locks_per_1000", locks);
  out.add("lock_waits_per_1000", waits);
}

void AllocatorEvents::read_nearmalloc(Counters& out) {
  const auto owns = find<int(const void*)>("near_owns");
  const auto get_stats = find<void(near_stats*)>("near_get_stats");
  if (owns == nullptr || get_stats == nullptr) return;
  void* volatile block = std::malloc(1);  // the library may be loaded without serving malloc
  const bool serves = owns(block) != 0;
  std::free(block);
  if (!serves) return;
  near_stats stats{};  // an older library fills only a part of it
  get_stats(&stats);
  out.add("fills_per_1000", stats.refills);
  out.add("locks_per_1000", stats.refills + stats.span_events);
  out.add("remote_blocks_per_1000", stats.remote_blocks);
  out.add("batches_per_1000", stats.free_batches);
  out.add("batch_blocks_per_1000", stats.free_batch_blocks);
  out.add("batch_groups_per_1000", stats.free_batch_groups);
  out.add("batch_atomics_per_1000", stats.free_batch_remote);
}

void AllocatorEvents::read(Counters& out) {
  read_nearmalloc(out);
  if (out.used == 0) read_jemalloc(out);  // nearmalloc answers mallctl, too
}

void AllocatorEvents::report(Workload& workload, uint64_t operations) const {
  if (operations == 0) return;
  Counters now;
  read(now);
  const double thousands = static_cast<double>(operations) / 1000;
  for (size_t i = 0; i < now.used; ++i) {
    workload.add(now.keys[i], static_cast<double>(now.values[i] - before_.values[i]) / thousands);
  }
}

}  // namespace workload
