// The mappings of the process with their resident sizes, and single numbers of /proc/self, read
// without allocating.
// Thread-safety: the thread that made the object; other threads may change mappings meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace near {

// Reads a file line by line. A line that is longer than the room is cut.
class LineReader {
 public:
  explicit LineReader(const char* path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  bool is_open() const { return file_ >= 0; }

  // The next line without its newline, valid until the next call; null at the end.
  const char* next();

 private:
  int next_byte();

  int file_;
  size_t at_ = 0;
  size_t filled_ = 0;
  char line_[256];
  char buffer_[2048];
};

struct Mapping {
  uintptr_t start;
  uintptr_t end;
  bool shared;
  uint64_t file;      // tells files apart; 0: none
  char name[16];      // the start of the path, or as "[stack]"; empty if it has none
  uint64_t resident;  // bytes

  bool contains(const void* address) const {
    const auto place = reinterpret_cast<uintptr_t>(address);
    return start <= place && place < end;
  }
};

// /proc/self/smaps; or /proc/self/maps, which is cheaper and has no resident sizes.
class Mappings {
 public:
  explicit Mappings(bool with_sizes)
      : lines_(with_sizes ? "/proc/self/smaps" : "/proc/self/maps"), line_(lines_.next()) {}

  // False at the end, and if the file cannot be read.
  bool next(Mapping& mapping);

 private:
  LineReader lines_;
  const char* line_;  // the first one of the next mapping
};

// The bytes that the line `name` ("Rss:") of a file as /proc/self/smaps_rollup gives in kB; 0 if
// there is none.
uint64_t kilobytes_of(const char* path, const char* name);

}  // namespace near
