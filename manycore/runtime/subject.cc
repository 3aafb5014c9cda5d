// The functions that allocate: the subject does it, and the engine learns where the block is.
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/loader_blocks.h"
#include "runtime/interposed.h"

namespace near::manycore {
namespace {

// The next definition, which is the subject's. dlsym may allocate only if it fails.
template <typename Function>
Function* next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) fail("the allocator has no %s", name);
  return reinterpret_cast<Function*>(found);
}

void* counted(void* address, size_t bytes, const void* site) {
  if (simulated) count_block(address, bytes, site);
  return address;
}

}  // namespace

#define NEAR_NEXT(name)                                                       \
  ([] {                                                                       \
    static const auto found = next<decltype(::name)>(#name);                  \
    return found;                                                             \
  }())

NEAR_INTERPOSED void* malloc(size_t bytes) noexcept {
  if (LoaderAllocates::now()) return allocate_loader_block(bytes);
  return counted(NEAR_NEXT(malloc)(bytes), bytes, NEAR_SITE);
}
NEAR_INTERPOSED void* calloc(size_t count, size_t bytes) noexcept {
  if (LoaderAllocates::now()) return allocate_loader_block(count * bytes);
  return counted(NEAR_NEXT(calloc)(count, bytes), count * bytes, NEAR_SITE);
}
NEAR_INTERPOSED void free(void* address) noexcept {
  if (is_loader_block(address)) return free_loader_block(address);
  NEAR_NEXT(free)(address);
}
NEAR_INTERPOSED void* realloc(void* address, size_t bytes) noexcept {
  if (is_loader_block(address)) {
    void* const moved = malloc(bytes);
    if (moved == nullptr) return nullptr;
    std::memcpy(moved, address, std::min(bytes, loader_block_size(address)));
    free_loader_block(address);
    return moved;
  }
  return counted(NEAR_NEXT(realloc)(address, bytes), bytes, NEAR_SITE);
}
NEAR_INTERPOSED void* memalign(size_t alignment, size_t bytes) noexcept {
  return counted(NEAR_NEXT(memalign)(alignment, bytes), bytes, NEAR_SITE);
}
NEAR_INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return counted(NEAR_NEXT(aligned_alloc)(alignment, bytes), bytes, NEAR_SITE);
}
NEAR_INTERPOSED int posix_memalign(void** into, size_t alignment, size_t bytes) noexcept {
  const int error = NEAR_NEXT(posix_memalign)(into, alignment, bytes);
  if (error == 0) counted(*into, bytes, NEAR_SITE);
  return error;
}

}  // namespace near::manycore

// operator new, by the names that its forms have in the ABI.
#define NEAR_NEW(name, symbol, parameters, arguments)                                         \
  extern "C" __attribute__((visibility("default"))) void* name parameters asm(symbol);        \
  extern "C" void* name parameters {                                                          \
    static const auto next =                                                                  \
        reinterpret_cast<decltype(&name)>(near::manycore::next<void>(symbol));                \
    return near::manycore::counted(next arguments, bytes, NEAR_SITE);                         \
  }
NEAR_NEW(near_new, "_Znwm", (size_t bytes), (bytes))
NEAR_NEW(near_new_array, "_Znam", (size_t bytes), (bytes))
NEAR_NEW(near_new_nothrow, "_ZnwmRKSt9nothrow_t", (size_t bytes, const void* tag), (bytes, tag))
NEAR_NEW(near_new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t bytes, const void* tag),
         (bytes, tag))
NEAR_NEW(near_new_aligned, "_ZnwmSt11align_val_t", (size_t bytes, size_t alignment),
         (bytes, alignment))
NEAR_NEW(near_new_array_aligned, "_ZnamSt11align_val_t", (size_t bytes, size_t alignment),
         (bytes, alignment))
