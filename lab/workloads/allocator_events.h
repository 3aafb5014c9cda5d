// How often the allocator that serves this program left its fast path, where it can be asked.
//
// jemalloc tells how often thread caches were flushed and filled and a bin's lock was taken;
// nearmalloc how often malloc and free took the heap's lock, what other threads' frees brought, and
// what near_free_batch made of its blocks. The others keep no such counts, or show them to nobody:
// of them nothing is told.
// Invariant: nothing is allocated but one block, freed at once. Thread-safety: one thread at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "workload.h"

namespace workload {

class AllocatorEvents {
 public:
  // From here on.
  AllocatorEvents() { read(before_); }
  // Adds what happened since then to the result, for each thousand of the workload's operations.
  void report(Workload& workload, uint64_t operations) const;

 private:
  static constexpr size_t kMost = 7;

  // Counters with their keys in the result; no keys: the allocator tells none.
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
