// What operator new does when memory is refused: ask the new-handler, else throw std::bad_alloc.
//
// The library links libc alone, so the handler and the exception are looked for in the C++ runtime
// that the program has loaded, on this path only. [ISO C++20, new.delete.single]
#pragma once

#include <cstddef>

namespace near {

// Tries again and calls the handler until one of them ends it. Throws if there is no handler.
void* new_slow(size_t size, size_t alignment);

// As new_slow, but null where that throws. Throws nothing (why it does not say so: new_nothrow.cc).
void* new_slow_nothrow(size_t size, size_t alignment);

}  // namespace near
