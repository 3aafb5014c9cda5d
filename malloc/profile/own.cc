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

// The places of the library's variables. They are collected first, because a stream that is written
// to by `visit` may need the dynamic linker's lock.
struct Variables {
  static constexpr unsigned kMost = 4;  // segments; linkers make one or two
  struct {
    uintptr_t start;
    uintptr_t end;
  } ranges[kMost];
  unsigned count = 0;
};

// Collects those of the object that has the profiler's, unless that is the program: its name is
// empty.
int find_variables(dl_phdr_info* object, size_t, void* data) {
  if (object->dlpi_name == nullptr || object->dlpi_name[0] == '\0') return 0;
  bool is_own = false;
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const auto& segment = object->dlpi_phdr[i];
    is_own = is_own || (segment.p_type == PT_LOAD && has(*object, segment, &running));
  }
  auto& out = *static_cast<Variables*>(data);
  for (unsigned i = 0; is_own && i < object->dlpi_phnum && out.count < Variables::kMost; i++) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    out.ranges[out.count++] = {start, align_up(start + segment.p_memsz, os::page_size())};
  }
  return is_own ? 1 : 0;
}

}  // namespace

void visit_own_ranges(void (*visit)(uintptr_t, uintptr_t, void*), void* data) {
  Call call{visit, data};
  if (const void* table = own_memory()) call(table, Table::kBytes);
  visit_windows(
      [](const Window& window, void* to) {
        const Call& call_own = *static_cast<const Call*>(to);
        call_own(window.start(), static_cast<size_t>(window.head_end() - window.start()));
        call_own(window.base(), window.described_bytes());
      },
      &call);
  for (unsigned n = 0; n < topology.count; n++) nodes[n].for_each_pool(call);
  Variables variables;
  dl_iterate_phdr(find_variables, &variables);
  for (unsigned i = 0; i < variables.count; i++) {
    visit(variables.ranges[i].start, variables.ranges[i].end, data);
  }
}

}  // namespace near::profile
