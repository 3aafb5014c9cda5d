// Handles pointers that no region holds: passes a block of another allocator to that allocator.
#include <dlfcn.h>

#include <cerrno>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "front/invalid.h"
#include "platform/address.h"
#include "platform/libc_block.h"
#include "sizes/size_class.h"

namespace near {

// Defined only in libraries that have the standard names (shim/malloc.cc).
extern void (*const kStandardFree)(void*) NEAR_HIDDEN __attribute__((weak));
extern "C" NEAR_HIDDEN void near_own_free(void*) noexcept __attribute__((weak));

namespace {

bool has_standard_names() { return &kStandardFree != nullptr && kStandardFree == near_own_free; }

// A function of the other allocator: the next definition of the name if this library has the
// standard names, else the one that the process uses. It is looked up once.
template <class Function>
class OtherAllocators {
 public:
  explicit constexpr OtherAllocators(const char* name) : name_(name) {}

  // The function if the pointer could be a block of the allocator in this process that has it; else
  // null, and in a program that has no other allocator.
  Function* for_block(const void* pointer) {
    if (reinterpret_cast<uintptr_t>(pointer) % kBlockAlign != 0 || is_in_loaded_object(pointer) ||
        is_on_this_stack(pointer) || !is_readable(pointer)) {
      return nullptr;
    }
    Function* const function = get();
    // The blocks of the C library are known; those of another allocator, in its place, are not.
    const bool is_libcs = is_in_c_library(reinterpret_cast<const void*>(function));
    return !is_libcs || looks_like_libc_block(pointer) ? function : nullptr;
  }

 private:
  Function* get() {
    Function* function = found_.load(kRelaxed);  // relaxed: every thread finds the same function
    if (unlikely(function == nullptr)) {
      void* const scope = has_standard_names() ? RTLD_NEXT : RTLD_DEFAULT;
      function = reinterpret_cast<Function*>(dlsym(scope, name_));
      found_.store(function, kRelaxed);  // relaxed: as above
    }
    return function;
  }

  const char* name_;
  Atomic<Function*> found_{nullptr};
};

constinit OtherAllocators<void(void*)> other_free("free");
constinit OtherAllocators<void*(void*, size_t)> other_realloc("realloc");
constinit OtherAllocators<size_t(void*)> other_usable_size("malloc_usable_size");

}  // namespace

NEAR_COLD void release_foreign(void* pointer) {
  if (auto* const free = other_free.for_block(pointer)) return free(pointer);
  report_invalid(pointer, "it is not a block of this allocator");
}

NEAR_COLD void* reallocate_foreign(void* pointer, size_t size) {
  if (auto* const realloc = other_realloc.for_block(pointer)) return realloc(pointer, size);
  report_invalid(pointer, "realloc of what is not a block of this allocator");
  errno = ENOMEM;
  return nullptr;
}

NEAR_COLD size_t usable_size_of_foreign(const void* pointer) {
  auto* const usable_size = other_usable_size.for_block(pointer);
  return usable_size != nullptr ? usable_size(const_cast<void*>(pointer)) : 0;
}

}  // namespace near
