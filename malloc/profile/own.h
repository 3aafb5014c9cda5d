// Which memory is the allocator's own, for tools that search a process for pointers to blocks.
// Thread-safety: any thread without locks held.
#pragma once

#include <cstdint>

namespace near::profile {

// Calls visit(start, end, data) for each range: descriptors, tables, the heap itself, structures,
// and the library's variables. If the library is linked into the program, its variables are among
// the program's, and not told.
void visit_own_ranges(void (*visit)(uintptr_t, uintptr_t, void*), void* data);

}  // namespace near::profile
