#include "allocator_events.h"

#include <dlfcn.h>

#include <cstdio>

namespace workload {
namespace {

// jemalloc's mallctl(3), found at run time.
using Mallctl = int (*)(const char* name, void* old, size_t* old_size, void* to, size_t to_size);

constexpr unsigned kAllArenas = 4096;  // MALLCTL_ARENAS_ALL

Mallctl mallctl_of_jemalloc() { return reinterpret_cast<Mallctl>(dlsym(RTLD_DEFAULT, "mallctl")); }

uint64_t bin_counter(Mallctl mallctl, unsigned bin, const char* name) {
  char path[96];
  std::snprintf(path, sizeof path, "stats.arenas.%u.bins.%u.%s", kAllArenas, bin, name);
  uint64_t value = 0;
  size_t size = sizeof value;
  return mallctl(path, &value, &size, nullptr, 0) == 0 ? value : 0;
}

}  // namespace

bool AllocatorEvents::read(Jemalloc& out) {
  const Mallctl mallctl = mallctl_of_jemalloc();
  unsigned bins = 0;
  size_t size = sizeof bins;
  uint64_t epoch = 1;  // writing it makes jemalloc sum its counters up
  if (mallctl == nullptr || mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch) != 0 ||
      mallctl("arenas.nbins", &bins, &size, nullptr, 0) != 0) {
    return false;
  }
  out = {};
  for (unsigned bin = 0; bin < bins; ++bin) {
    out.flushes += bin_counter(mallctl, bin, "nflushes");
    out.fills += bin_counter(mallctl, bin, "nfills");
    out.locks += bin_counter(mallctl, bin, "mutex.num_ops");
    out.lock_waits += bin_counter(mallctl, bin, "mutex.num_wait");
  }
  return true;
}

AllocatorEvents::AllocatorEvents() : is_jemalloc_(read(jemalloc_)) {}

void AllocatorEvents::report(Workload& workload, uint64_t operations) const {
  Jemalloc now;
  if (is_jemalloc_ && operations != 0 && read(now)) {
    const double thousands = static_cast<double>(operations) / 1000;
    const auto add = [&](const char* key, uint64_t after, uint64_t before) {
      workload.add(key, static_cast<double>(after - before) / thousands);
    };
    add("flushes_per_1000", now.flushes, jemalloc_.flushes);
    add("fills_per_1000", now.fills, jemalloc_.fills);
    add("locks_per_1000", now.locks, jemalloc_.locks);
    add("lock_waits_per_1000", now.lock_waits, jemalloc_.lock_waits);
  }
}

}  // namespace workload
