// Calls of the C library that no other object can interpose; only the shared libraries have it.
//
// A program, a preloaded tool or the runtime of a sanitizer may define any public name of the C
// library, with a meaning of its own or before it is ready to be called. So each function of
// shim/libc_names.h has a hidden definition here, to which the linker binds the library's calls. A
// definition jumps through a slot. The first jump finds the function in the C library's own table
// of symbols; the others go straight to it. The archives call the C library by name: they are a
// part of the program.
// Docs: docs/decisions/0015-interposition.md.
// Invariant: nothing that `near_bind_slot` calls is found by `near_bind_slot`, apart from getauxval
// for the choice of an implementation.
// Thread-safety: any thread, also in a handler; all threads store the same function.
#include <link.h>

#include <cstddef>
#include <cstdlib>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/bound_call.h"
#include "platform/loaded.h"
#include "platform/message.h"
#include "shim/libc_names.h"

namespace near {
namespace {

// The loader's list of objects, for debuggers. From glibc 2.35 on a namespace of dlmopen has one of
// its own, which `next` leads to if the version is 2 or more.
struct Namespace {
  r_debug list;
  const Namespace* next;
};

struct Slot {
  Atomic<void*> function;  // at first the code that leads to near_bind_slot
  const char* name;
};
static_assert(offsetof(Slot, name) == 8);

bool has_own_object(const link_map* objects) {
  for (const link_map* object = objects; object != nullptr; object = object->l_next) {
    if (object->l_ld == _DYNAMIC) return true;
  }
  return false;
}

// The objects of the namespace in which this library is.
const link_map* own_namespace() {
  const auto* each = reinterpret_cast<const Namespace*>(&_r_debug);
  const bool is_only = each->list.r_version < 2;
  while (each != nullptr && !has_own_object(each->list.r_map))
    each = is_only ? nullptr : each->next;
  return each == nullptr ? _r_debug.r_map : each->list.r_map;
}

const link_map* find_libc() {
  for (const link_map* object = own_namespace(); object != nullptr; object = object->l_next) {
    if (LoadedObject(object->l_addr, object->l_ld).is_named("libc.so.6")) return object;
  }
  return nullptr;
}

// Null if the C library does not define the function.
void* find_in_libc(const char* name) {
  static constinit Atomic<const link_map*> found{nullptr};
  const link_map* libc = found.load(kRelaxed);  // relaxed: all threads find the same
  if (libc == nullptr) {
    libc = find_libc();
    if (libc == nullptr) return nullptr;
    found.store(libc, kRelaxed);  // relaxed: as above
  }
  return LoadedObject(libc->l_addr, libc->l_ld).symbol(name);
}

}  // namespace
}  // namespace near

extern "C" NEAR_HIDDEN __attribute__((used)) void near_bind_slot(near::Slot* slot) {
  void* const function = near::find_in_libc(slot->name);
  if (function == nullptr) {
    near::message("the C library has no function %s", slot->name);
    abort();
  }
  slot->function.store(function, near::kRelaxed);  // relaxed: all threads find the same
}

NEAR_DEFINE_ROUTINE("near_bind", "near_bind_slot");

#define NEAR_LIBC(name) NEAR_DEFINE_BOUND(#name, #name, "near_bind");
NEAR_LIBC_NAMES(NEAR_LIBC)
// The overriding library has a pthread_create of its own.
NEAR_DEFINE_BOUND("libc_pthread_create", "pthread_create", "near_bind");
