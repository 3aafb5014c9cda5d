// Writes pieces of text to a stream, or to stderr without allocating if the stream is null.
// Thread-safety: the thread that made the object.
#pragma once

#include <cstdarg>
#include <cstdio>

#include "platform/message.h"

namespace near {

class Out {
 public:
  explicit Out(FILE* stream) : stream_(stream) {}

  // At most 199 bytes.
  __attribute__((format(printf, 2, 3))) void put(const char* format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (stream_ == nullptr) {
      print("%s", text);
    } else {
      fputs(text, stream_);
    }
  }

 private:
  FILE* stream_;
};

}  // namespace near
