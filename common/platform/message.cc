// Messages on stderr without allocating.
#include "platform/message.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "base/assert.h"
#include "platform/raw_io.h"
#include "platform/saved_errno.h"

namespace near {
namespace {

constexpr int kFirstSpare = 64;  // above the descriptor numbers that programs rely on
int spare_stderr = -1;

ssize_t write_some(const char* text, size_t length) {
  const ssize_t written = raw::write(STDERR_FILENO, text, length);
  if (written >= 0 || errno != EBADF || spare_stderr < 0) return written;
  return raw::write(spare_stderr, text, length);
}

void write_all(const char* text, int length, int room) {
  auto left = static_cast<size_t>(length < room ? length : room - 1);
  while (left > 0) {
    const ssize_t written = write_some(text, left);
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

}  // namespace

void keep_stderr() {
  const SavedErrno saved;
  spare_stderr = raw::duplicate(STDERR_FILENO, kFirstSpare);
}

void message(const char* format, ...) {
  const SavedErrno saved;
  char text[512];
  int length = snprintf(text, sizeof text, "nearmalloc: ");
  va_list arguments;
  va_start(arguments, format);
  const int added =
      vsnprintf(text + length, sizeof text - 2 - static_cast<size_t>(length), format, arguments);
  va_end(arguments);
  if (added > 0) length += added;
  if (length > static_cast<int>(sizeof text) - 3) length = static_cast<int>(sizeof text) - 3;
  text[length++] = '\n';
  write_all(text, length, sizeof text);
}

void print(const char* format, ...) {
  const SavedErrno saved;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length > 0) write_all(text, length, sizeof text);
}

void fail(const char* what, const char* file, int line) {
  message("%s (%s:%d)", what, file, line);
  abort();
}

}  // namespace near
