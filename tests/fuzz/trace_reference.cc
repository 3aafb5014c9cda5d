#include "fuzz/trace_reference.h"

#include <algorithm>
#include <cstring>

namespace near_test::fuzz {
namespace {

constexpr uint64_t kMostThreads = 1 << 16;

// Reads from the front; a read that fails makes all later ones fail.
class Source {
 public:
  Source(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  bool good() const { return good_; }
  bool empty() const { return left_ == 0; }
  void fail() { good_ = false; }

  unsigned byte() {
    if (left_ == 0 || !good_) {
      fail();
      return 0;
    }
    left_--;
    return *at_++;
  }

  // Seven bits a byte, the lowest first; at most 64 bits.
  uint64_t number() {
    uint64_t value = 0;
    for (unsigned bits = 0; good_; bits += 7) {
      const uint64_t next = byte();
      const uint64_t part = next & 0x7f;
      if (bits > 63 || (bits == 63 && part > 1)) fail();
      if (!good_) break;
      value |= part << bits;
      if (next < 0x80) return value;
    }
    return 0;
  }

  // 0, -1, 1, -2, ... as differences modulo 2^64.
  uint64_t difference() {
    const uint64_t coded = number();
    return coded % 2 == 0 ? coded / 2 : ~(coded / 2);
  }

 private:
  const uint8_t* at_;
  size_t left_;
  bool good_ = true;
};

// The event behind its tag; false if it is the last, which the file must end behind.
bool read_event(Source& source, unsigned tag, ReferenceTrace& trace, ReferenceEvent& event) {
  event.kind = tag & 0x7f;
  if (event.kind == kTraceNothing || event.kind > kTraceEnd) source.fail();
  if (tag >= 0x80) event.thread = source.number();
  if (event.thread > UINT32_MAX) source.fail();
  const uint64_t pause = source.number();
  if (event.ns > UINT64_MAX - pause) source.fail();
  event.ns += pause;
  if (event.kind == kTraceEnd) {
    if (source.number() != trace.events.size() || !source.empty()) source.fail();
    trace.has_ended = true;
    return false;
  }
  const bool has_size = event.kind != kTraceFree && event.kind != kTraceResize;
  event.alignment = event.kind == kTraceAligned ? source.number() : 0;
  event.size = has_size ? source.number() : 0;
  event.address += source.difference();
  return true;
}

struct Live {
  uint64_t thread;
  uint64_t size;
};

struct Resizing {
  uint64_t address;
  std::optional<Live> before;
};

// The heap of the recorded program.
class Heap {
 public:
  // False if no program can have made the call.
  bool take(const ReferenceEvent& event) {
    sums.events_by_kind[event.kind]++;
    switch (event.kind) {
      case kTraceFree:
        end(event);
        return true;
      case kTraceResize:
        return resizing_.emplace(event.thread, Resizing{event.address, end(event)}).second;
      case kTraceResized:
        return resized(event);
      default:
        return make(event);
    }
  }

  void finish() { sums.live_objects = live_.size(); }

  ReferenceSums sums;

 private:
  bool keep(uint64_t address, Live block) {
    sums.live_bytes += block.size;
    return live_.emplace(address, block).second;
  }

  bool make(const ReferenceEvent& event) {
    if (!keep(event.address, {event.thread, event.size})) return false;
    sums.objects++;
    sums.bytes += event.size;
    sums.peak_live_bytes = std::max(sums.peak_live_bytes, sums.live_bytes);
    sums.peak_live_objects = std::max<uint64_t>(sums.peak_live_objects, live_.size());
    return true;
  }

  std::optional<Live> end(const ReferenceEvent& event) {
    const auto found = live_.find(event.address);
    if (found == live_.end()) {
      sums.unknown_frees++;
      return std::nullopt;
    }
    const Live block = found->second;
    live_.erase(found);
    sums.live_bytes -= block.size;
    sums.remote_frees += block.thread != event.thread ? 1 : 0;
    return block;
  }

  bool resized(const ReferenceEvent& event) {
    const auto found = resizing_.find(event.thread);
    if (found == resizing_.end()) return false;
    const Resizing begun = found->second;
    resizing_.erase(found);
    if (event.address != 0) return make(event);
    return !begun.before.has_value() || keep(begun.address, *begun.before);
  }

  std::map<uint64_t, Live> live_;
  std::map<uint64_t, Resizing> resizing_;
};

}  // namespace

std::optional<ReferenceTrace> read_reference(const uint8_t* data, size_t size) {
  TraceHeader header;
  if (size < sizeof header) return std::nullopt;
  std::memcpy(&header, data, sizeof header);
  if (std::memcmp(header.magic, TRACE_MAGIC, sizeof header.magic) != 0) return std::nullopt;
  if (header.version != kTraceVersion) return std::nullopt;
  ReferenceTrace trace;
  trace.process = header.process;
  Source source(data + sizeof header, size - sizeof header);
  ReferenceEvent event;
  while (true) {
    const unsigned tag = source.byte();
    if (!source.good()) return std::nullopt;
    if (tag == kTraceNothing) return trace;
    const bool more = read_event(source, tag, trace, event);
    if (!source.good()) return std::nullopt;
    if (!more) return trace;
    trace.events.push_back(event);
  }
}

std::optional<ReferenceSums> replay_reference(const ReferenceTrace& trace) {
  Heap heap;
  for (const ReferenceEvent& event : trace.events) {
    if (event.thread > heap.sums.threads || event.thread >= kMostThreads) return std::nullopt;
    heap.sums.threads = std::max(heap.sums.threads, event.thread + 1);
  }
  for (const ReferenceEvent& event : trace.events) {
    if (!heap.take(event)) return std::nullopt;
  }
  heap.finish();
  return heap.sums;
}

}  // namespace near_test::fuzz
