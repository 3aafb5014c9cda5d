// dlopen without RTLD_DEEPBIND; only the overriding shared library has it.
//
// With that flag a library looks names up in itself and in its dependencies, hence in the C
// library, before the program. It would get the C library's malloc, and that allocator would free
// blocks it does not know. The option `deepbind` keeps the flag. dlmopen is left alone: what it
// loads has a C library of its own.
// Docs: docs/decisions/0015-interposition.md.
// Thread-safety: any thread.
#include <dlfcn.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/options.h"

namespace near {
namespace {

using Open = void*(const char* file, int mode);

constinit Atomic<Open*> next_dlopen{nullptr};

NEAR_NOINLINE Open* find_next() {
  auto* const found = reinterpret_cast<Open*>(dlsym(RTLD_NEXT, "dlopen"));
  next_dlopen.store(found, kRelaxed);  // relaxed: every thread finds the same function
  return found;
}

}  // namespace
}  // namespace near

// The next dlopen is reached by a jump: it must see the program's return address, by which it finds
// the RUNPATH of the object that called.
extern "C" NEAR_EXPORT void* dlopen(const char* file, int mode) noexcept {
  near::Open* open = near::next_dlopen.load(near::kRelaxed);  // relaxed: as in find_next
  if (near::unlikely(open == nullptr)) open = near::find_next();
  const auto deepbind = static_cast<near::Deepbind>(near::option(near::Option::deepbind));
  return open(file, deepbind == near::Deepbind::drop ? mode & ~RTLD_DEEPBIND : mode);
}
