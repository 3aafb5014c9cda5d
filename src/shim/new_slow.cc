#include "shim/new_slow.h"

#include <dlfcn.h>

#include <cstdlib>

#include "front/front.h"
#include "platform/message.h"

namespace near {
namespace {

using Handler = void (*)();
using GetHandler = Handler (*)();
using ThrowBadAlloc = void (*)();

// Names as the C++ ABI mangles them: std::get_new_handler() and what throws bad_alloc.
constexpr char kGetHandler[] = "_ZSt15get_new_handlerv";
constexpr char kThrower[] = "_ZSt17__throw_bad_allocv";

Handler new_handler() {
  const auto get = reinterpret_cast<GetHandler>(dlsym(RTLD_DEFAULT, kGetHandler));
  return get != nullptr ? get() : nullptr;
}

void throw_bad_alloc() {
  const auto thrower = reinterpret_cast<ThrowBadAlloc>(dlsym(RTLD_DEFAULT, kThrower));
  if (thrower != nullptr) thrower();
  message(
      "out of memory in operator new, and no C++ runtime is loaded that could throw "
      "std::bad_alloc");
  abort();
}

}  // namespace

NEAR_COLD void* new_slow(size_t size, size_t alignment) {
  while (true) {
    if (const Handler handler = new_handler()) {
      handler();
    } else {
      throw_bad_alloc();
    }
    if (void* block = allocate_aligned(alignment, size)) return block;
  }
}

}  // namespace near
