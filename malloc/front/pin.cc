#include "front/pin.h"

#include <dlfcn.h>
#include <link.h>

// Weak: an old static C library does not have it.
#pragma weak dladdr1

namespace near {
namespace {

bool stays_by_itself(const link_map& object) {
  if (object.l_name == nullptr || object.l_name[0] == '\0') return true;  // the program
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_FLAGS_1) return (entry->d_un.d_val & DF_1_NODELETE) != 0;
  }
  return false;
}

}  // namespace

void pin_own_object() {
  if (&dladdr1 == nullptr) return;
  Dl_info place;
  link_map* object = nullptr;
  const auto* here = reinterpret_cast<const void*>(&pin_own_object);
  if (dladdr1(here, &place, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0) return;
  if (object == nullptr || stays_by_itself(*object)) return;
  // Looked up at run time: a direct call would make the linker warn in a static program, although
  // that never gets here.
  const auto open = reinterpret_cast<decltype(&dlopen)>(dlsym(RTLD_DEFAULT, "dlopen"));
  if (open != nullptr) open(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace near
