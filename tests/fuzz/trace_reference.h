// What a recorded trace says, by a second reader written from lab/bench/trace_format.h, and the
// sums of replaying it.
// Invariant: only the names of the format are shared with the reader under test.
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "trace_format.h"

namespace near_test::fuzz {

struct ReferenceEvent {
  unsigned kind = kTraceNothing;
  uint64_t thread = 0;
  uint64_t ns = 0;
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t alignment = 0;
};

struct ReferenceTrace {
  uint32_t process = 0;
  bool has_ended = false;
  std::vector<ReferenceEvent> events;
};

// Empty if the bytes are not a trace.
std::optional<ReferenceTrace> read_reference(const uint8_t* data, size_t size);

struct ReferenceSums {
  uint64_t events_by_kind[kTraceEnd] = {};
  uint64_t threads = 0, objects = 0, bytes = 0;
  uint64_t live_bytes = 0, peak_live_bytes = 0, live_objects = 0, peak_live_objects = 0;
  uint64_t remote_frees = 0, unknown_frees = 0;
};

// Empty if no program can have made these calls in this order.
std::optional<ReferenceSums> replay_reference(const ReferenceTrace& trace);

}  // namespace near_test::fuzz
