// How often the allocator that serves this program left its fast path, where it can be asked.
//
// jemalloc tells how often thread caches were flushed and filled and a bin's lock was taken. The
// others keep no such counts, or show them to nobody: of them nothing is told.
// Invariant: nothing is allocated. Who may touch it: one thread at a time.
#pragma once

#include <cstdint>

#include "workload.h"

namespace workload {

class AllocatorEvents {
 public:
  // From here on.
  AllocatorEvents();
  // Adds what happened since then to the result, for each thousand of the workload's operations.
  void report(Workload& workload, uint64_t operations) const;

 private:
  struct Jemalloc {
    uint64_t flushes = 0, fills = 0, locks = 0, lock_waits = 0;
  };
  static bool read(Jemalloc& out);

  Jemalloc jemalloc_;
  bool is_jemalloc_;
};

}  // namespace workload
