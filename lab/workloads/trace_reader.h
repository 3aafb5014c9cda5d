// Reads a recorded malloc trace (lab/bench/trace_format.h), event by event.
//
// Invariant: an event that is returned is complete and has the numbers that were written; anything
// else in the file throws a TraceError with its position. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "trace_format.h"

namespace workload {

struct TraceError : std::runtime_error {
  using runtime_error::runtime_error;
};

struct TraceEvent {
  TraceKind kind = kTraceNothing;
  uint32_t thread = 0;
  uint64_t ns = 0;  // since the first event
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t alignment = 0;
};

class TraceReader {
 public:
  explicit TraceReader(const std::string& path);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  // Reads one event. False at the end.
  bool next(TraceEvent& event);
  void rewind();

  uint32_t process() const { return process_; }
  uint64_t events() const { return events_; }  // read so far
  // Valid at the end: whether the process ran its exit handlers.
  bool has_ended() const { return has_ended_; }

 private:
  struct Unchecked {};
  TraceReader(const std::string& path, Unchecked);
  [[noreturn]] void fail(const std::string& what) const;
  uint8_t byte();
  uint64_t varint();
  uint32_t thread();
  uint64_t address();
  void finish();

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0, at_ = 0;
  TraceEvent last_;
  uint32_t process_ = 0;
  uint64_t events_ = 0;
  bool has_ended_ = false;
};

}  // namespace workload
