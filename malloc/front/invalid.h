// Handles a pointer that `free` should not have been given.
//
// A report is one line that says what is wrong, and one that says what lies at the address: the
// block with its size, and the heap that owns its span. docs/misuse.md lists what is found.
// Thread-safety: any thread, without locks held: a handler of SIGABRT may allocate, and fork.
#pragma once

#include <cstddef>

namespace near {

// Reports `pointer` and what is known about it. Then it aborts or returns; the option `invalid`
// decides that, and whether it prints.
void report_invalid(const void* pointer, const char* what);

// A pointer that no region holds: another allocator's block goes to that allocator, anything else
// is reported.
void release_foreign(void* pointer);

// As release_foreign, for realloc. Returns null with ENOMEM if the pointer is reported.
void* reallocate_foreign(void* pointer, size_t size);

// Returns the size that the other allocator reports for its block; 0 for anything else.
size_t usable_size_of_foreign(const void* pointer);

}  // namespace near
