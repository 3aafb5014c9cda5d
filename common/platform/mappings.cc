#include "platform/mappings.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/bits.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

// The first line of a mapping begins with an address, the others with a capital.
bool starts_mapping(const char* line) { return isupper(static_cast<unsigned char>(*line)) == 0; }

// The value of a line as "Rss:     12 kB" in bytes; 0 if the line has another name.
uint64_t bytes_of(const char* line, const char* name) {
  const size_t length = strlen(name);
  return strncmp(line, name, length) == 0 ? strtoull(line + length, nullptr, 10) * kKiB : 0;
}

// Reads "start-end perms offset major:minor inode name".
void parse(const char* line, Mapping& mapping) {
  mapping = {};
  char* at = nullptr;
  mapping.start = strtoull(line, &at, 16);
  mapping.end = strtoull(at + 1, &at, 16);
  mapping.shared = strlen(at) > 4 && at[4] == 's';
  char* device = at + strcspn(at + 1, " ") + 1;  // before the offset
  strtoull(device, &device, 16);
  const uint64_t major = strtoull(device, &device, 16);
  const uint64_t minor = strtoull(device + 1, &device, 16);
  const uint64_t inode = strtoull(device, &device, 10);
  mapping.file = inode == 0 ? 0 : inode ^ major << 52 ^ minor << 40;
  device += strspn(device, " ");
  snprintf(mapping.name, sizeof mapping.name, "%s", device);
}

}  // namespace

LineReader::LineReader(const char* path) : file_(raw::open_to_read(path)) {}

LineReader::~LineReader() {
  const SavedErrno saved;
  if (is_open()) raw::close(file_);
}

// -1 at the end.
int LineReader::next_byte() {
  if (at_ == filled_) {
    const ssize_t got = is_open() ? raw::read(file_, buffer_, sizeof buffer_) : 0;
    if (got <= 0) return -1;
    filled_ = static_cast<size_t>(got);
    at_ = 0;
  }
  return static_cast<unsigned char>(buffer_[at_++]);
}

const char* LineReader::next() {
  const SavedErrno saved;
  size_t length = 0;
  int byte = next_byte();
  if (byte < 0) return nullptr;
  for (; byte >= 0 && byte != '\n'; byte = next_byte()) {
    if (length < sizeof line_ - 1) line_[length++] = static_cast<char>(byte);
  }
  line_[length] = '\0';
  return line_;
}

bool Mappings::next(Mapping& mapping) {
  const SavedErrno saved;
  if (line_ == nullptr) return false;
  parse(line_, mapping);
  while ((line_ = lines_.next()) != nullptr && !starts_mapping(line_)) {
    mapping.resident += bytes_of(line_, "Rss:");
  }
  return true;
}

uint64_t kilobytes_of(const char* path, const char* name) {
  const SavedErrno saved;
  LineReader lines(path);
  while (const char* line = lines.next()) {
    if (const uint64_t value = bytes_of(line, name)) return value;
  }
  return 0;
}

}  // namespace near
