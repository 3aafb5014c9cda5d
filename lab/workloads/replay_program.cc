#include "replay_program.h"

#include <bit>

namespace workload {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kMostThreads = 1 << 16;

}  // namespace

ReplayProgram::ReplayProgram(const std::string& path) : path_(path) {
  TraceReader reader(path);
  count_threads(reader);
  reader.rewind();
  TraceEvent event;
  while (reader.next(event)) take(event);
  summary_.events = reader.events();
  summary_.process = reader.process();
  summary_.has_ended = reader.has_ended();
  summary_.seconds = static_cast<double>(event.ns) * 1e-9;
  summary_.live_bytes_at_end = live_bytes_;
  summary_.live_objects_at_end = live_.size();
}

void ReplayProgram::fail(const char* what) const {
  throw TraceError(path_ + ": malformed: " + what);
}

void ReplayProgram::count_threads(TraceReader& reader) {
  TraceEvent event;
  std::vector<size_t> counts;
  while (reader.next(event)) {
    if (event.thread > counts.size() || event.thread >= kMostThreads)
      fail("a thread's number is not the next one");
    if (event.thread == counts.size()) counts.push_back(0);
    ++counts[event.thread];
  }
  for (const size_t count : counts) threads_.emplace_back(count);
  used_.resize(counts.size());
  summary_.threads = static_cast<uint32_t>(counts.size());
}

void ReplayProgram::append(const TraceEvent& event, uint32_t object, uint32_t ended) {
  const auto bits =
      static_cast<uint8_t>(event.alignment == 0 ? 0 : std::bit_width(event.alignment) - 1);
  threads_[event.thread][used_[event.thread]++] = {
      event.ns, event.size, object, ended, static_cast<uint8_t>(event.kind), bits};
}

void ReplayProgram::make(const TraceEvent& event, uint32_t ended) {
  const auto object = static_cast<uint32_t>(objects_++);
  if (object == kNone) fail("too many objects");
  if (!live_.emplace(event.address, Live{object, event.thread, event.size}).second)
    fail("an address is allocated twice");
  ++summary_.sizes[static_cast<size_t>(std::bit_width(event.size))];
  summary_.bytes += event.size;
  live_bytes_ += event.size;
  summary_.peak_live_bytes = std::max(summary_.peak_live_bytes, live_bytes_);
  summary_.peak_live_objects = std::max(summary_.peak_live_objects, uint64_t{live_.size()});
  append(event, object, ended);
}

bool ReplayProgram::end(const TraceEvent& event, Live& ended) {
  const auto found = live_.find(event.address);
  if (found == live_.end()) return false;
  ended = found->second;
  live_bytes_ -= ended.size;
  live_.erase(found);
  summary_.remote_frees += ended.thread != event.thread;
  return true;
}

void ReplayProgram::take(const TraceEvent& event) {
  ++summary_.events_by_kind[event.kind];
  Live ended{kNone, 0, 0};
  switch (event.kind) {
    case kTraceFree:
      if (end(event, ended)) {
        append(event, ended.object, kNone);
      } else {
        ++summary_.unknown_frees;
      }
      break;
    case kTraceResize:
      summary_.unknown_frees += !end(event, ended);
      if (!resizing_.emplace(event.thread, std::pair(event.address, ended)).second)
        fail("a realloc within a realloc");
      break;
    case kTraceResized:
      resize(event);
      break;
    default:
      make(event, kNone);
  }
}

void ReplayProgram::resize(const TraceEvent& event) {
  const auto found = resizing_.find(event.thread);
  if (found == resizing_.end()) fail("a realloc without a beginning");
  const auto [address, ended] = found->second;
  resizing_.erase(found);
  if (event.address != 0) {
    make(event, ended.object);
  } else if (ended.object != kNone) {  // realloc failed: the old block is still live
    if (!live_.emplace(address, ended).second) fail("a block lives on that another one replaced");
    live_bytes_ += ended.size;
  }
}

}  // namespace workload
