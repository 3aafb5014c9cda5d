// The one place that catches: operator new(nothrow) when a new-handler throws. Compiled with
// exceptions. The symbols of the C++ runtime are weak: in a program without one they are null, and
// nothing throws there.
// Not noexcept: the end of a handler may throw, and Clang would guard it by a strong reference to
// std::terminate, which only a C++ runtime has.
#include "base/compiler.h"
#include "shim/new_slow.h"

asm(".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n");

extern "C" void* _ZSt15get_new_handlerv() __attribute__((weak));

namespace near {

NEAR_COLD void* new_slow_nothrow(size_t size, size_t alignment) {
  if (&_ZSt15get_new_handlerv == nullptr) return nullptr;
  using GetHandler = void (*(*)())();
  if (reinterpret_cast<GetHandler>(&_ZSt15get_new_handlerv)() == nullptr) return nullptr;
  try {
    return new_slow(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace near
