// The C names that the overriding library exports: malloc and its family, and glibc's aliases of
// them.
#include <cstddef>

#include "front/front.h"
#include "nearmalloc/nearmalloc.h"

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

NEAR_HIDDEN void near_own_free(void* block) noexcept __attribute__((alias("free")));

}  // extern "C"

// Is near_own_free, except in a program that links the archive, where the standard names are weak
// (cmake/libraries.cmake), and has another malloc. front/foreign.cc compares the two.
namespace near {
extern void (*const kStandardFree)(void*) NEAR_HIDDEN;
void (*const kStandardFree)(void*) = free;
}  // namespace near
