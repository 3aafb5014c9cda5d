#include "trace_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace workload {

TraceReader::TraceReader(const std::string& path, Unchecked) : path_(path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw TraceError(path + ": " + std::strerror(errno));
  struct stat status;
  const bool is_regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  size_ = is_regular ? static_cast<size_t>(status.st_size) : 0;
  void* const mapped =
      size_ == 0 ? MAP_FAILED : mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped != MAP_FAILED) data_ = static_cast<const uint8_t*>(mapped);
}

// Delegates, so that the destructor unmaps the file if this body throws.
TraceReader::TraceReader(const std::string& path) : TraceReader(path, Unchecked{}) {
  TraceHeader header;
  const bool has_header = data_ != nullptr && size_ >= sizeof header;
  if (has_header) std::memcpy(&header, data_, sizeof header);
  if (!has_header || std::memcmp(header.magic, TRACE_MAGIC, sizeof header.magic) != 0)
    throw TraceError(path + ": not a malloc trace");
  if (header.version != kTraceVersion)
    throw TraceError(path + ": a trace of format " + std::to_string(header.version) +
                     ", this program reads " + std::to_string(kTraceVersion));
  process_ = header.process;
  rewind();
}

TraceReader::~TraceReader() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

void TraceReader::rewind() {
  at_ = sizeof(TraceHeader);
  last_ = TraceEvent{};
  events_ = 0;
  has_ended_ = false;
}

void TraceReader::fail(const std::string& what) const {
  throw TraceError(path_ + ": " + what + " at byte " + std::to_string(at_) + ", behind " +
                   std::to_string(events_) + " events");
}

uint8_t TraceReader::byte() {
  if (at_ == size_) fail("truncated");
  return data_[at_++];
}

uint64_t TraceReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint8_t next = byte();
    const uint64_t part = next & 0x7fu;
    value |= part << shift;
    if (value >> shift != part) break;
    if (next < 0x80) return value;
  }
  fail("malformed: a number of more than 64 bits");
}

uint32_t TraceReader::thread() {
  const uint64_t number = varint();
  if (number > UINT32_MAX) fail("malformed: the number of a thread");
  return static_cast<uint32_t>(number);
}

uint64_t TraceReader::address() {
  const uint64_t coded = varint();
  return last_.address += (coded >> 1) ^ -(coded & 1);
}

void TraceReader::finish() {
  if (varint() != events_) fail("malformed: another number of events");
  if (at_ != size_) fail("malformed: something behind the end");
  has_ended_ = true;
}

bool TraceReader::next(TraceEvent& event) {
  if (has_ended_) return false;
  const uint8_t tag = byte();
  const unsigned kind = tag & ~unsigned{kTraceOtherThread};
  if (tag == kTraceNothing) {
    --at_;
    return false;
  }
  if (kind == kTraceNothing || kind > kTraceEnd) fail("malformed: an unknown event");
  if (tag & kTraceOtherThread) last_.thread = thread();
  if (__builtin_add_overflow(last_.ns, varint(), &last_.ns)) fail("malformed: an endless pause");
  if (kind == kTraceEnd) {
    finish();
    return false;
  }
  last_.kind = static_cast<TraceKind>(kind);
  last_.alignment = kind == kTraceAligned ? varint() : 0;
  last_.size = kind == kTraceFree || kind == kTraceResize ? 0 : varint();
  address();
  ++events_;
  event = last_;
  return true;
}

}  // namespace workload
