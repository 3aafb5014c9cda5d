// Reads /proc/self through a buffer on the stack; see proc_self.h.
// Invariant: a file that cannot be read ends the process, so that no test passes on a zero.
#include "support/proc_self.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace near_test {
namespace {

class File {
 public:
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      std::perror(path);
      std::abort();
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(descriptor_); }

  size_t read_some(char* buffer, size_t size) const {
    const ssize_t got = read(descriptor_, buffer, size);
    return got > 0 ? static_cast<size_t>(got) : 0;
  }

 private:
  int descriptor_;
};

// The number after `key` in a file of "key: number" lines that fits the buffer.
size_t field(const char* path, const char* key) {
  char text[4096];
  const File file(path);
  size_t length = 0;
  while (length < sizeof text - 1) {
    const size_t got = file.read_some(text + length, sizeof text - 1 - length);
    if (got == 0) break;
    length += got;
  }
  text[length] = '\0';
  const char* found = std::strstr(text, key);
  if (found == nullptr) {
    std::fprintf(stderr, "%s has no field %s\n", path, key);
    std::abort();
  }
  return std::strtoull(found + std::strlen(key), nullptr, 10);
}

}  // namespace

size_t resident_bytes() { return field("/proc/self/smaps_rollup", "\nRss:") * 1024; }

size_t thread_count() { return field("/proc/self/status", "\nThreads:"); }

size_t mapping_count() {
  const File file("/proc/self/maps");
  char buffer[4096];
  size_t lines = 0;
  while (const size_t got = file.read_some(buffer, sizeof buffer)) {
    for (size_t i = 0; i < got; ++i) lines += buffer[i] == '\n' ? 1 : 0;
  }
  return lines;
}

size_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_minflt);
}

}  // namespace near_test
