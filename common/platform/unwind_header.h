// Where the unwind tables of code are: the search table of its object (.eh_frame_hdr).
// Thread-safety: any thread, also in a handler. With glibc from 2.35 on it takes no lock.
#pragma once

#include <cstdint>

namespace near {

// Null if no loaded object has the address, or if that has no such table.
const void* find_unwind_header(uintptr_t address);

}  // namespace near
