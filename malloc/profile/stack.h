// The stack of the calling thread, as return addresses.
//
// Each step to a caller reads the unwind tables of the code (profile/tables.h). Code without them,
// such as JIT-compiled code, is passed by its frame pointer. The option `profile_stacks` = frames
// follows frame pointers alone. docs/decisions/0022-profiler.md
// Thread-safety: any thread. Nothing is allocated.
#pragma once

#include <cstdint>

namespace near::profile {

// Chooses the way, and finds where this library's own code is.
void prepare_stacks(bool by_frame_pointers);

// Stores the return addresses of the callers, the innermost first, and returns how many. The first
// frames are omitted if they lie in this library, unless it is part of the program's own file.
unsigned capture_stack(uintptr_t* frames, unsigned most);

}  // namespace near::profile
