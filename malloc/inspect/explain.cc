#include "inspect/explain.h"

#include <cstring>

#include "base/bits.h"
#include "front/thread.h"
#include "node/memory.h"
#include "platform/mappings.h"
#include "platform/page_map.h"
#include "profile/profiler.h"

namespace near {
namespace {

uintptr_t at(const void* place) { return reinterpret_cast<uintptr_t>(place); }

// Calls visit(part, start, end) for each range of memory that is the allocator's outside chunks,
// and for the chunks themselves with Part::count.
template <typename Visit>
void for_each_own_range(Visit visit) {
  visit_windows(
      [](const Window& window, void* data) {
        Visit& call = *static_cast<Visit*>(data);
        call(Part::tables, at(window.start()), at(window.spans()));
        call(Part::descriptors, at(window.spans()), at(window.head_end()));
        call(Part::count, at(window.base()), at(window.base()) + window.described_bytes());
      },
      &visit);
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].for_each_pool([&](const char* start, size_t bytes) {
      visit(Part::structures, at(start), at(start) + bytes);
    });
  }
  if (const void* start = profile::own_memory()) {
    visit(Part::structures, at(start), at(start) + profile::Table::kBytes);
  }
}

Part part_of(const Mapping& mapping, uint64_t own_file) {
  const auto is = [&](const char* name) { return strcmp(mapping.name, name) == 0; };
  if (mapping.file != 0 && mapping.file == own_file) return Part::library;
  if (mapping.shared) return Part::shared;
  if (mapping.file != 0 || is("[vdso]") || is("[vvar]")) return Part::files;
  if (is("[stack]")) return Part::stack;
  if (is("[heap]")) return Part::brk;
  // The variables of a library that are zero at first have an anonymous mapping.
  return mapping.contains(&topology) || mapping.contains(&depots) ? Part::library : Part::others;
}

// Adds a mapping that may contain ranges of the allocator's. The kernel may have merged them with
// other anonymous memory, be it the library's variables.
void add_anonymous(PageMap& pages, const Mapping& mapping, Part part, Explanation& out) {
  uint64_t own = 0;
  bool any = false;
  for_each_own_range([&](Part of, uintptr_t start, uintptr_t end) {
    start = max_of(start, mapping.start);
    end = min_of(end, mapping.end);
    if (start >= end) return;
    any = true;
    const uint64_t bytes = pages.resident(start, end);
    own += bytes;
    if (of != Part::count) out.of(of) += bytes;
  });
  if (!any) {
    out.of(part) += mapping.resident;
    return;
  }
  const uint64_t all = pages.resident(mapping.start, mapping.end);
  out.of(part) += all - min_of(all, own);
}

uint64_t find_own_file() {
  Mappings mappings(false);
  Mapping mapping;
  while (mappings.next(mapping)) {
    if (mapping.contains(reinterpret_cast<const void*>(&measure_everything))) return mapping.file;
  }
  return 0;
}

void measure_mappings(PageMap& pages, Explanation& out) {
  const uint64_t own_file = find_own_file();
  Mappings mappings(true);
  Mapping mapping;
  while (mappings.next(mapping)) {
    const Part part = part_of(mapping, own_file);
    if (mapping.file == 0 && !mapping.shared) {
      add_anonymous(pages, mapping, part, out);
    } else {
      out.of(part) += mapping.resident;
    }
  }
}

}  // namespace

bool measure_everything(Explanation& out) {
  out = {};
  PageMap pages;
  if (is_inside() || !pages.is_open()) return false;
  measure_chunks(pages, out);
  measure_mappings(pages, out);
  out.kernel = kilobytes_of("/proc/self/smaps_rollup", "Rss:");
  out.page_tables = kilobytes_of("/proc/self/status", "VmPTE:");
  return true;
}

}  // namespace near
