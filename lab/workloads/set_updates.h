// What the files of the workload `set_updates` share: its options, the operations, the counts of
// the threads, and one function for each structure.
//
// Invariant: operation i of a run is the same whichever thread executes it, so equal options give
// an equal checksum. Thread-safety: a Setting is constant once parsed; a Tally is one thread's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <nearmalloc/reclaim/options.hpp>
#include <nearmalloc/reclaim/timeline.hpp>
#include <string>

#include "latency.h"
#include "random.h"
#include "workload.h"

namespace set_updates {

struct Setting {
  std::string structure = "abtree", scheme = "debra", policy = "batch", prefill = "mixed";
  std::string hook = "auto", timeline;
  size_t threads = 48, keys = 20'000'000, operations = 100'000'000, updates = 100;
  size_t objects = 1, every = 1, budget_ns = 1000, batch = 0, check_every = 10;
  size_t range_percent = 0, range_keys = 100;
  size_t stall_ms = 0, sleep_between_ms = 0;
  size_t latency = 0, freeing_time = 0, timeline_events = 100'000;
  size_t pool_mib = 0;

  near::reclaim::options domain_options(near::reclaim::timeline* record_to) const;
};

// Memory for blocks that are allocated in the measured region; see set_updates_pool.cc.
struct Pool {
  void (*open)(size_t bytes);
  size_t (*used)();
};

// A hash: every bit of the result depends on every bit of `number`.
uint64_t mixed(uint64_t number);

struct Operation {
  enum Kind { kInsert, kErase, kFind, kRange };

  uint64_t word;  // the random bits that determine it
  Kind kind;
  int64_t key;
};

// The operation that has this number.
Operation operation(const Setting& setting, uint64_t number);

// The value that belongs to a key, so that a value left by another block is detected.
inline uint64_t value_of(int64_t key) { return static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15; }

// The counts of one thread.
struct alignas(128) Tally {
  uint64_t key_sum = 0;  // inserted keys less erased keys, modulo 2^64
  int64_t keys = 0;
  uint64_t words = 0;  // sum over its operations
  uint64_t operations = 0;
  uint64_t wrong = 0;    // values that were not the key's
  uint64_t visited = 0;  // keys of range queries
  uint64_t cpu_ns = 0;   // how long the thread ran
  // The thread's row of the timeline for range queries, if there is a timeline and there are any.
  near::reclaim::track* ranges = nullptr;
  workload::Latencies latencies;

  void add(const Tally& other);
};

// Hands out numbers of operations in chunks, so threads finish within one chunk of each other.
class Numbers {
 public:
  static constexpr uint64_t kChunk = 64;

  Numbers(uint64_t first, uint64_t count) : next_(first), end_(first + count) {}

  // The first number of a chunk and the number after its last; both are 0 at the end.
  struct Chunk {
    uint64_t begin, end;
  };
  Chunk take() {
    // relaxed: only the number itself is shared
    const uint64_t begin = next_.fetch_add(kChunk, std::memory_order_relaxed);
    if (begin >= end_) return {0, 0};
    return {begin, begin + kChunk < end_ ? begin + kChunk : end_};
  }

 private:
  alignas(128) std::atomic<uint64_t> next_;
  const uint64_t end_;
};

// The CPU time of the calling thread, in ns.
uint64_t thread_ns();
// Its CPU time since `start`, an earlier thread_ns(), less the time that reading the clock takes.
uint64_t thread_ns_since(uint64_t start);

// The arguments of a run of one structure, which adds its numbers to the workload's result.
struct Run {
  workload::Workload& workload;
  const Setting& setting;
  const Pool* pool;
  near::reclaim::timeline* record_to;
};

void run_abtree(const Run& run);
void run_abtree13(const Run& run);
void run_occtree(const Run& run);
void run_occtree_spin(const Run& run);
void run_skip_list(const Run& run);
void run_list(const Run& run);
void run_hash_map(const Run& run);

// The program's main function; `pool` is null without a pool.
int run_program(const char* name, int argc, char** argv, const Pool* pool);

}  // namespace set_updates
