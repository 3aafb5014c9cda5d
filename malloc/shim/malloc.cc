// The C names that the overriding library exports: malloc and its family, and glibc's aliases of
// them.
#include <cstddef>

#include "front/front.h"
#include "nearmalloc/nearmalloc.h"

// front/foreign.cc tests this: in this library `free` is our own.
namespace near {
extern const char kHasStandardNames NEAR_HIDDEN;
const char kHasStandardNames = 1;
}  // namespace near

extern "C" {

NEAR_EXPORT void* malloc(size_t size) noexcept { return near::allocate(size); }
NEAR_EXPORT void free(void* block) noexcept { near::release(block); }
NEAR_EXPORT void* calloc(size_t count, size_t size) noexcept {
  return near::allocate_zeroed(count, size);
}
NEAR_EXPORT void* realloc(void* block, size_t size) noexcept {
  return near::reallocate(block, size);
}
NEAR_EXPORT void cfree(void* block) noexcept { near::release(block); }
NEAR_EXPORT void free_sized(void* block, size_t size) noexcept { near::release_sized(block, size); }
NEAR_EXPORT void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept {
  near::release_sized(block, size, alignment);
}

NEAR_EXPORT void* __libc_malloc(size_t size) noexcept { return near::allocate(size); }
NEAR_EXPORT void __libc_free(void* block) noexcept { near::release(block); }
NEAR_EXPORT void __libc_cfree(void* block) noexcept { near::release(block); }
NEAR_EXPORT void* __libc_calloc(size_t count, size_t size) noexcept {
  return near::allocate_zeroed(count, size);
}
NEAR_EXPORT void* __libc_realloc(void* block, size_t size) noexcept {
  return near::reallocate(block, size);
}

}  // extern "C"
