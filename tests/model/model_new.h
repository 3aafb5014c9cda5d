// The forms of `new` and `delete` that Relacy does not replace, so that they do not mix with those
// that it does. For models of structures that allocate.
// Invariant: all memory of a model comes from Relacy, which reports what is freed twice or leaked.
// Thread-safety: one file of a program includes this.
#pragma once

#include <cstddef>
#include <new>

#include "model_atomic.h"

void* operator new[](size_t size, const std::nothrow_t&) noexcept { return operator new[](size); }
void operator delete(void* block, size_t) noexcept { operator delete(block); }
void operator delete[](void* block, size_t) noexcept { operator delete[](block); }
