// What operator new does when there is no memory.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>
#include <new>

namespace near {

// Calls the new-handler and tries again, until there is memory; without a handler throws
// std::bad_alloc. Handler and exception are those of the C++ runtime that code at `caller` uses.
// Aborts with a message if there is no runtime.
void* new_slow(size_t size, size_t alignment, const void* caller);

// As new_slow, but returns null where that throws.
void* new_slow_nothrow(size_t size, size_t alignment, const void* caller);

// Calls a program's own operator new; null if it throws.
void* call_nothrow(void* (*make)(size_t), size_t size);
void* call_nothrow(void* (*make)(size_t, std::align_val_t), size_t size,
                   std::align_val_t alignment);

}  // namespace near
