// Refuses memory to the library. The linker puts this program's malloc and posix_memalign before
// libc's, for what is linked into the program: the tests' own operator new is not affected.
// Thread-safety: each thread has its own count.
#pragma once

#include <cstddef>

namespace near_test {

// After this many blocks the calling thread gets no more until the scope ends.
class Refusing {
 public:
  static constexpr long kNever = -1;
  explicit Refusing(long after);
  ~Refusing();
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
};

// How often memory was refused since the calling thread's last `Refusing` began.
size_t refusals();

}  // namespace near_test
