// The C++ runtime of the code that called operator new, by the names that libstdc++ and libc++ have
// in common: those of the Itanium C++ ABI.
//
// A name is looked for in three places, in the order of the loader: linked to this library, in the
// global scope, in the objects of the caller. The first is all there is in a static program, the
// last is where a plugin's runtime is that was opened with RTLD_LOCAL. Only on the failing path.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>

namespace near {

using NewHandler = void (*)();

class CxxRuntime {
 public:
  explicit CxxRuntime(const void* caller) : caller_(caller) {}

  // The present new-handler, or null.
  NewHandler new_handler() const;

  // Throws std::bad_alloc. Aborts with a message if there is no runtime.
  [[noreturn]] void throw_bad_alloc() const;

  // The runtime's own operator new(nothrow), which calls ours and catches; null if it has none.
  void* new_nothrow(size_t size, size_t alignment) const;

 private:
  const void* caller_;
};

// True if this library can catch an exception itself: the runtime's personality is linked to it.
bool can_catch();

// new_slow, caught. Requires can_catch().
void* new_slow_caught(size_t size, size_t alignment, const void* caller);

}  // namespace near
