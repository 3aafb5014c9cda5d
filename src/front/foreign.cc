// Pointers that no region holds: another allocator's blocks go home.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "base/bits.h"
#include "base/compiler.h"
#include "front/invalid.h"
#include "platform/os.h"
#include "platform/saved_errno.h"
#include "sizes/size_class.h"

namespace near {
namespace {

bool is_mapped(const void* pointer) {
  const SavedErrno saved;
  unsigned char resident = 0;
  const auto page = align_down(reinterpret_cast<uintptr_t>(pointer), os::page_size());
  return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

bool is_on_this_stack(const void* pointer) {
  constexpr uintptr_t kReach = 16 * kMiB;  // above a frame of ours: the rest of any usual stack
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return reinterpret_cast<uintptr_t>(pointer) - here < kReach;
}

// True if the pointer could be a block of another allocator in this process.
bool may_be_another_allocators(const void* pointer) {
  Dl_info object;
  return reinterpret_cast<uintptr_t>(pointer) % kBlockAlign == 0 && is_mapped(pointer) &&
         !is_on_this_stack(pointer) && dladdr(pointer, &object) == 0;
}

// The function of that name that is not ours: that of the next library that has one.
void* other(const char* name) { return dlsym(RTLD_NEXT, name); }

}  // namespace

NEAR_COLD void release_foreign(void* pointer) {
  if (may_be_another_allocators(pointer)) {
    const auto free = reinterpret_cast<void (*)(void*)>(other("free"));
    if (free != nullptr) return free(pointer);
  }
  report_invalid(pointer, "it is not a block of this allocator");
}

NEAR_COLD void* reallocate_foreign(void* pointer, size_t size) {
  if (may_be_another_allocators(pointer)) {
    const auto realloc = reinterpret_cast<void* (*)(void*, size_t)>(other("realloc"));
    if (realloc != nullptr) return realloc(pointer, size);
  }
  report_invalid(pointer, "realloc of what is not a block of this allocator");
  errno = ENOMEM;
  return nullptr;
}

}  // namespace near
