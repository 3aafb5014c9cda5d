// The functions that the shim calls, for a published design: the names of malloc/front/front.h,
// defined in designs/shared/front.cc on top of that design. When the shim is compiled for designs,
// this folder precedes malloc/ on the include path.
// Thread-safety: any thread.
#pragma once

#include <cstddef>

#include "base/bits.h"
#include "base/compiler.h"
#include "sizes/size_class.h"  // kBlockAlign

namespace near {

void* allocate(size_t size);
void* allocate_aligned(size_t alignment, size_t size);
void* allocate_zeroed(size_t count, size_t size);
void* reallocate(void* pointer, size_t size);
void release(void* pointer);
size_t usable_size(const void* pointer);

// No design stores the requested size of a block, so there is nothing to compare.
inline void release_sized(void* pointer, size_t) { release(pointer); }
inline void release_sized(void* pointer, size_t, size_t) { release(pointer); }

}  // namespace near
