// Handles pointers that must not be passed to `free`.
//
// A report has one line that says what is wrong, and one that says what lies at the address: the
// block with its size, and the heap that owns its span. docs/misuse.md lists what is detected.
// Thread-safety: any thread, without locks held: a handler of SIGABRT may allocate and fork.
#pragma once

#include <cstddef>

namespace near {

// Reports `pointer` and what lies there. The option `invalid` decides whether this prints, and
// whether it aborts or returns.
void report_invalid(const void* pointer, const char* what);

// Reports a block of a free list that must not be in one. As report_invalid.
void report_list(const void* block, const char* what);

// Frees a pointer that no region holds: passes another allocator's block to that allocator, and
// reports anything else.
void release_foreign(void* pointer);

// As release_foreign, for realloc. Returns null with ENOMEM if the pointer is reported.
void* reallocate_foreign(void* pointer, size_t size);

// Returns the size that the other allocator reports for its block; 0 for anything else.
size_t usable_size_of_foreign(const void* pointer);

}  // namespace near
