// The number of the allocator's mappings, and its limit.
//
// The system allows a process vm.max_map_count mappings. The allocator takes at most a quarter, and
// leaves the rest to threads, libraries and files of the program.
// Invariant: the count is the sum of the mappings of all chunks, tables and descriptors. A region
// counts changes under the shard's lock.
// A change that only saves memory (a chunk unmapped, smaller pages, a block moved by page tables)
// starts only if the count is below 7/8 of the quarter, or the change adds no mapping. The last
// eighth is room for growth, which always goes on, and for the changes in progress: each shard adds
// at most two mappings at a time.
// Thread-safety: any thread. Each change of the count goes with a call of the system that locks the
// whole address space, so threads do not wait for the count's cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/os.h"

namespace near {

class MappingCount {
 public:
  // `limit`: of the system for each process. Called at start.
  void set_limit(size_t limit) {
    const size_t quarter = limit / 4;
    most_ = static_cast<int64_t>(quarter - quarter / 8);
  }

  // relaxed: a sum
  void add(int64_t mappings) {
    if (mappings != 0) count_.fetch_add(mappings, kRelaxed);
  }
  int64_t count() const { return count_.load(kRelaxed); }  // relaxed: a sum

  // True if a change to save memory, which adds so many mappings, may start.
  bool allows(int64_t mappings) const { return mappings <= 0 || count() + mappings <= most_; }

  // The number of forks between the program's start and this process, modulo kForks. The system
  // joins no new mapping to a parent's.
  static constexpr uint8_t kForks = 15;
  uint8_t forks() const { return forks_; }
  // Called in the child of a fork.
  void count_fork() { forks_ = static_cast<uint8_t>((forks_ + 1) % kForks); }

  // True if growth should add no mapping where possible.
  bool is_full() const { return !allows(1); }

 private:
  uint8_t forks_ = 0;
  int64_t most_ = os::kUsualMappings / 4 - os::kUsualMappings / 32;  // constant after start
  alignas(128) Atomic<int64_t> count_{0};
};

extern NEAR_HIDDEN MappingCount mapping_count;

}  // namespace near
