// The C++ runtime of the code that called operator new, by the names that libstdc++ and libc++ have
// in common: those of the Itanium C++ ABI.
//
// A name is looked for in three places, in the order of the loader: linked to this library, in the
// global scope, in the objects of the caller. A static program has only the first; the runtime of a
// plugin that was opened with RTLD_LOCAL is in the last. Used only on the failing path.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>

namespace near {

using NewHandler = void (*)();

class CxxRuntime {
 public:
  explicit CxxRuntime(const void* caller) : caller_(caller) {}

  // Returns the present new-handler, or null.
  NewHandler new_handler() const;

  // Throws std::bad_alloc. Aborts with a message if there is no runtime.
  [[noreturn]] void throw_bad_alloc() const;

  // Calls the runtime's own operator new(nothrow), which calls our operator new and catches what
  // that throws. Returns the block; null if there is none, or if the runtime has no such operator.
  void* new_nothrow(size_t size, size_t alignment) const;

 private:
  const void* caller_;
};

// True if this library can catch an exception itself: the runtime's personality is linked to it.
bool can_catch();

// As new_slow, but catches what it throws. Requires can_catch().
void* new_slow_caught(size_t size, size_t alignment, const void* caller);

}  // namespace near
