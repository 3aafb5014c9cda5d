// The only file that catches; it is compiled with exceptions. It serves operator new(nothrow) when
// a new-handler or a replaced operator new throws.
// The symbols of the C++ runtime are weak: a program without one has no exceptions either.
// Not noexcept: the end of a catch block may throw, and Clang would guard it by a strong reference
// to std::terminate, which only a C++ runtime has.
#include "base/compiler.h"
#include "shim/cxx_runtime.h"
#include "shim/new_slow.h"

__asm__(
    ".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");

extern "C" void __gxx_personality_v0() __attribute__((weak));

namespace near {

bool can_catch() { return &__gxx_personality_v0 != nullptr; }

NEAR_COLD void* new_slow_caught(size_t size, size_t alignment, const void* caller) {
  try {
    return new_slow(size, alignment, caller);
  } catch (...) {
    return nullptr;
  }
}

NEAR_COLD void* call_nothrow(void* (*make)(size_t), size_t size) {
  try {
    return make(size);
  } catch (...) {
    return nullptr;
  }
}

NEAR_COLD void* call_nothrow(void* (*make)(size_t, std::align_val_t), size_t size,
                             std::align_val_t alignment) {
  try {
    return make(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace near
