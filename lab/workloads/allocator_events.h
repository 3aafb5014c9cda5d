// How often the allocator that serves this program left its fast path, if it reports that.
//
// jemalloc reports how often thread caches were flushed and filled and a bin's lock was taken.
// nearmalloc reports how often malloc and free took the heap's lock, the blocks that other threads
// freed, and the counts of near_free_batch. The other allocators publish no such counts, so nothing
// is reported for them.
// Invariant: only one block is allocated, and it is freed at once. Thread-safety: one thread at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "workload.h"

namespace workload {

class AllocatorEvents {
 public:
  // Events count from here on.
  AllocatorEvents() { read(before_); }
  // Adds the events since then to the result, for each thousand of the workload's operations.
  void report(Workload& workload, uint64_t operations) const;

 private:
  static constexpr size_t kMost = 7;

  // Counters with their keys in the result; empty if the allocator reports none.
  struct Counters {
    std::array<const char*, kMost> keys{};
    std::array<uint64_t, kMost> values{};
    size_t used = 0;

    void add(const char* key, uint64_t value);
  };
  static void read(Counters& out);
  static void read_jemalloc(Counters& out);
  static void read_nearmalloc(Counters& out);

  Counters before_;
};

}  // namespace workload
