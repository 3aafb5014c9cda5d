// A trace as a program to run again: the operations of each thread, on numbered objects.
//
// Invariant: an object is made by one operation and ended by at most one, which comes later in the
// trace. So threads that each keep their own order, and wait until an object is made, never wait
// for each other in a circle. A free of an object that the trace did not make (it was made before
// the recording or a fork) is counted and left out. The tables are mapped, so the replaying program
// calls malloc only for what the trace allocates.
// Thread-safety: one thread builds it; then it is constant.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

#include "table.h"
#include "trace_reader.h"

namespace workload {

// Mapped memory, not malloc's, for tables that grow.
class MappedMemory : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t) override { return Mapped<char>().allocate(bytes); }
  void do_deallocate(void* start, size_t bytes, size_t) override {
    Mapped<char>().deallocate(static_cast<char*>(start), bytes);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// A resize ends `ended` and makes `object`. A failed resize is left out.
struct Operation {
  uint64_t ns;
  uint64_t size;
  uint32_t object, ended;
  uint8_t kind;  // TraceKind
  uint8_t alignment_bits;
};

struct TraceSummary {
  uint64_t events = 0, unknown_frees = 0, peak_live_bytes = 0, peak_live_objects = 0;
  uint64_t live_bytes_at_end = 0, live_objects_at_end = 0, remote_frees = 0;
  uint64_t bytes = 0;  // allocated in all
  double seconds = 0;
  uint32_t threads = 0, process = 0;
  bool has_ended = false;
  std::array<uint64_t, kTraceEnd> events_by_kind{};
  std::array<uint64_t, 65> sizes{};  // [n]: allocations of [2^(n-1), 2^n) bytes, [0]: of none
};

class ReplayProgram {
 public:
  explicit ReplayProgram(const std::string& path);

  const TraceSummary& summary() const { return summary_; }
  size_t objects() const { return objects_; }
  size_t threads() const { return threads_.size(); }
  const Table<Operation>& of_thread(size_t thread) const { return threads_[thread]; }

 private:
  struct Live {
    uint32_t object, thread;
    uint64_t size;
  };
  void count_threads(TraceReader& reader);
  void take(const TraceEvent& event);
  void make(const TraceEvent& event, uint32_t ended);
  bool end(const TraceEvent& event, Live& ended);
  void resize(const TraceEvent& event);
  void append(const TraceEvent& event, uint32_t object, uint32_t ended);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  TraceSummary summary_;
  size_t objects_ = 0;
  uint64_t live_bytes_ = 0;
  std::vector<Table<Operation>> threads_;
  std::vector<size_t> used_;  // of each thread's table
  MappedMemory memory_;
  std::pmr::unsynchronized_pool_resource pool_{&memory_};
  std::pmr::unordered_map<uint64_t, Live> live_{&pool_};  // by address
  // By thread: the block that it is resizing, with its address.
  std::pmr::map<uint32_t, std::pair<uint64_t, Live>> resizing_{&pool_};
};

}  // namespace workload
