// Where a profile is written: a stream, or a file by system calls, so that writing at exit does not
// allocate.
// Thread-safety: the thread that made the object.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/bits.h"
#include "platform/raw_io.h"

namespace near::profile {

class Sink {
 public:
  explicit Sink(FILE* stream) : stream_(stream) {}
  explicit Sink(int file) : file_(file) {}
  ~Sink() { flush(); }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(const void* bytes, size_t length) {
    const char* from = static_cast<const char*>(bytes);
    while (length > 0) {
      if (filled_ == sizeof buffer_) flush();
      const size_t part = min_of(length, sizeof buffer_ - filled_);
      memcpy(buffer_ + filled_, from, part);
      filled_ += part;
      from += part;
      length -= part;
    }
  }

  void text(const char* words) { write(words, strlen(words)); }

  // At most 299 bytes. Not for a double: its form depends on the locale.
  __attribute__((format(printf, 2, 3))) void put(const char* format, ...) {
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0) write(line, min_of(static_cast<size_t>(length), sizeof line - 1));
  }

  // A number by the format of one double, with a point in every locale. snprintf takes the locale's
  // sign, which may have several bytes.
  void real(const char* format, double value) {
    char digits[48] = "";
    snprintf(digits, sizeof digits, format, value);
    bool in_sign = false;
    for (const char* at = digits; *at != '\0'; at++) {
      const bool is_plain = strchr("0123456789+-e", *at) != nullptr;
      if (is_plain) {
        write(at, 1);
      } else if (!in_sign) {
        text(".");
      }
      in_sign = !is_plain;
    }
  }

  // Writes what was kept back. False if this or an earlier writing failed.
  bool flush() {
    const char* from = buffer_;
    while (filled_ > 0 && !failed_) {
      const ssize_t done = stream_ != nullptr
                               ? static_cast<ssize_t>(fwrite(from, 1, filled_, stream_))
                               : raw::write(file_, from, filled_);
      failed_ = done <= 0;
      if (failed_) break;
      from += done;
      filled_ -= static_cast<size_t>(done);
    }
    filled_ = 0;
    return !failed_;
  }

 private:
  FILE* stream_ = nullptr;
  int file_ = -1;
  size_t filled_ = 0;
  bool failed_ = false;
  char buffer_[2048];
};

}  // namespace near::profile
