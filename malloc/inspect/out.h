// Writes pieces of text to a stream, to a function of the program, or to stderr without allocating.
// Thread-safety: the thread that made the object.
#pragma once

#include <cstdarg>
#include <cstdio>

#include "platform/message.h"

namespace near {

class Out {
 public:
  using Write = void (*)(void* opaque, const char* text);

  Out() = default;  // to stderr
  explicit Out(FILE* stream) : stream_(stream) {}
  // A null `write`: to stderr.
  Out(Write write, void* opaque) : write_(write), opaque_(opaque) {}

  // At most 399 bytes.
  __attribute__((format(printf, 2, 3))) void put(const char* format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (write_ != nullptr) {
      write_(opaque_, text);
    } else if (stream_ != nullptr) {
      fputs(text, stream_);
    } else {
      print("%s", text);
    }
  }

 private:
  FILE* stream_ = nullptr;
  Write write_ = nullptr;
  void* opaque_ = nullptr;
};

}  // namespace near
