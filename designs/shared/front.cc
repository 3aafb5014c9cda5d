// Compiled for each design: implements malloc's family on top of the design, with the names of
// shim/front/front.h.
#include "front/front.h"

#include <cerrno>
#include <cstring>

#include "designs/shared/design.h"
#include "front/invalid.h"
#include "this_design.h"

namespace near {
namespace {

using design::ThisDesign;

NEAR_COLD void* refuse() {
  errno = ENOMEM;
  return nullptr;
}

// True if a block of `usable` bytes may go on to serve `size`: it fits, and less than half of it
// would be unused.
bool fits_well(size_t size, size_t usable) {
  return size <= usable && (size >= usable / 2 || usable <= 2 * kBlockAlign);
}

}  // namespace

void* allocate(size_t size) {
  void* block = ThisDesign::allocate(size);
  return likely(block != nullptr) ? block : refuse();
}

void release(void* pointer) {
  if (likely(pointer != nullptr)) ThisDesign::deallocate(pointer);
}

void* allocate_aligned(size_t alignment, size_t size) {
  if (alignment <= kBlockAlign) return allocate(max_of(size, alignment));
  if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2) return refuse();
  void* block = ThisDesign::allocate_aligned(alignment, size);
  return block != nullptr ? block : refuse();
}

void* allocate_zeroed(size_t count, size_t size) {
  size_t bytes = 0;
  if (unlikely(__builtin_mul_overflow(count, size, &bytes))) return refuse();
  void* block = ThisDesign::allocate_zeroed(bytes);
  return block != nullptr ? block : refuse();
}

void* reallocate(void* pointer, size_t size) {
  if (pointer == nullptr) return allocate(size);
  if (size == 0) {
    release(pointer);
    return nullptr;
  }
  const size_t usable = ThisDesign::usable_size(pointer);
  if (unlikely(usable == 0)) return reallocate_foreign(pointer, size);
  if (fits_well(size, usable) || ThisDesign::resize(pointer, size)) return pointer;
  void* moved = allocate(size);
  if (moved == nullptr) return size <= usable ? pointer : nullptr;
  memcpy(moved, pointer, min_of(usable, size));
  release(pointer);
  return moved;
}

size_t usable_size(const void* pointer) {
  return pointer == nullptr ? 0 : ThisDesign::usable_size(pointer);
}

}  // namespace near
