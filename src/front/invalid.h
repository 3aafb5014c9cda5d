// What happens to a pointer that `free` should not have been given.
// Who may touch it: any thread, without locks held.
#pragma once

#include <cstddef>

namespace near {

// Reports `pointer` and what is known of it, and aborts, returns, or says nothing, as the option
// `invalid` says.
void report_invalid(const void* pointer, const char* what);

// The same for realloc. Null with ENOMEM if it is reported.
void* reallocate_foreign(void* pointer, size_t size);

// A pointer that no region holds: another allocator's block goes to that allocator, anything else
// is reported.
void release_foreign(void* pointer);

}  // namespace near
