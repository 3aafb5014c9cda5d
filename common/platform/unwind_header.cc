#include "platform/unwind_header.h"

#include <link.h>

#include <cstddef>

#include "platform/find_object.h"

namespace near {
namespace {

struct Search {
  uintptr_t address;
  const void* header;
};

int visit_object(struct dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const void* header = nullptr;
  bool holds = false;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) holds |= search.address - start < segment.p_memsz;
    if (segment.p_type == PT_GNU_EH_FRAME) header = reinterpret_cast<const void*>(start);
  }
  if (holds) search.header = header;
  return holds ? 1 : 0;
}

}  // namespace

const void* find_unwind_header(uintptr_t address) {
#if NEAR_HAS_FIND_OBJECT
  if (&_dl_find_object != nullptr) {
    dl_find_object found;
    const bool known = _dl_find_object(reinterpret_cast<void*>(address), &found) == 0;
    return known ? found.dlfo_eh_frame : nullptr;
  }
#endif
  Search search{address, nullptr};
  dl_iterate_phdr(visit_object, &search);
  return search.header;
}

}  // namespace near
