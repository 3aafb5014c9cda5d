// Memory from the tests' operating system, for parts that are tested alone.
// Invariant: it is committed, and given back at the end.
// Thread-safety: the thread of the test that made it.
#pragma once

#include <cstddef>

#include "platform/os.h"

namespace near_test {

class Memory {
 public:
  explicit Memory(size_t bytes, size_t alignment = size_t{64} << 10, bool committed = true)
      : start_(static_cast<char*>(near::os::reserve(bytes, alignment))), bytes_(bytes) {
    if (committed) near::os::commit(start_, bytes);
  }
  ~Memory() { near::os::unreserve(start_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* start() const { return start_; }
  size_t bytes() const { return bytes_; }

 private:
  char* start_;
  size_t bytes_;
};

inline constexpr size_t kPageSizes[] = {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10};

}  // namespace near_test
