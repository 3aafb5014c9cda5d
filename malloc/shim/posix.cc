// The names of POSIX, BSD and glibc that the overriding library exports; each calls its near_ twin.
#include "base/compiler.h"
#include "nearmalloc/nearmalloc.h"

extern "C" {

NEAR_EXPORT void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return near_aligned_alloc(alignment, size);
}
NEAR_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return near_posix_memalign(out, alignment, size);
}
NEAR_EXPORT int __posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return near_posix_memalign(out, alignment, size);
}
NEAR_EXPORT void* memalign(size_t alignment, size_t size) noexcept {
  return near_memalign(alignment, size);
}
NEAR_EXPORT void* __libc_memalign(size_t alignment, size_t size) noexcept {
  return near_memalign(alignment, size);
}
NEAR_EXPORT void* valloc(size_t size) noexcept { return near_valloc(size); }
NEAR_EXPORT void* __libc_valloc(size_t size) noexcept { return near_valloc(size); }
NEAR_EXPORT void* pvalloc(size_t size) noexcept { return near_pvalloc(size); }
NEAR_EXPORT void* __libc_pvalloc(size_t size) noexcept { return near_pvalloc(size); }
NEAR_EXPORT void* reallocarray(void* block, size_t count, size_t size) noexcept {
  return near_reallocarray(block, count, size);
}
NEAR_EXPORT size_t malloc_usable_size(void* block) noexcept {
  return near_malloc_usable_size(block);
}
NEAR_EXPORT int malloc_trim(size_t pad) noexcept { return near_malloc_trim(pad); }
NEAR_EXPORT int mallopt(int parameter, int value) noexcept {
  return near_mallopt(parameter, value);
}
NEAR_EXPORT struct mallinfo mallinfo(void) noexcept { return near_mallinfo(); }
NEAR_EXPORT struct mallinfo2 mallinfo2(void) noexcept { return near_mallinfo2(); }
NEAR_EXPORT void malloc_stats(void) noexcept { near_malloc_stats(); }
NEAR_EXPORT int malloc_info(int options, FILE* stream) noexcept {
  return near_malloc_info(options, stream);
}

}  // extern "C"
