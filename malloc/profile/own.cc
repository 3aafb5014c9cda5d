#include "profile/own.h"

#include <link.h>

#include "base/bits.h"
#include "node/memory.h"
#include "platform/os.h"
#include "profile/profiler.h"

namespace near::profile {
namespace {

struct Call {
  void (*visit)(uintptr_t, uintptr_t, void*);
  void* data;
  void operator()(const void* start, size_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(start);
    visit(at, at + bytes, data);
  }
};

bool has(const dl_phdr_info& object, const ElfW(Phdr) & segment, const void* address) {
  const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
  return reinterpret_cast<uintptr_t>(address) - start < segment.p_memsz;
}

// Visits the variables of the object that has the profiler's, unless that is the program: its name
// is empty.
int visit_variables(dl_phdr_info* object, size_t, void* data) {
  if (object->dlpi_name == nullptr || object->dlpi_name[0] == '\0') return 0;
  bool is_own = false;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const auto& segment = object->dlpi_phdr[i];
    is_own = is_own || (segment.p_type == PT_LOAD && has(*object, segment, &running));
  }
  for (unsigned i = 0; is_own && i < object->dlpi_phnum; i++) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    (*static_cast<Call*>(data))(reinterpret_cast<const void*>(start),
                                align_up(start + segment.p_memsz, os::page_size()) - start);
  }
  return is_own ? 1 : 0;
}

}  // namespace

void visit_own_ranges(void (*visit)(uintptr_t, uintptr_t, void*), void* data) {
  Call call{visit, data};
  if (const void* table = own_memory()) call(table, Table::kBytes);
  visit_windows(
      [](const Window& window, void* to) {
        const auto bytes = static_cast<size_t>(window.base() - window.start());
        (*static_cast<Call*>(to))(window.start(), bytes + window.described_bytes());
      },
      &call);
  for (unsigned n = 0; n < topology.count; n++) nodes[n].for_each_pool(call);
  dl_iterate_phdr(visit_variables, &call);
}

}  // namespace near::profile
