// operator new that throws, and every operator delete. [ISO C++20, new.delete]
//
// Four forms allocate and free by themselves. The others call another form and return what it
// returns, by a jump through the GOT: this file is compiled without a PLT. So the return address is
// that of the program's own call, by which new_slow.cc finds the program's C++ runtime.
#include "front/front.h"
#include "shim/new_slow.h"
#include "shim/replaceable.h"

using std::align_val_t;
using std::nothrow_t;

extern "C" {

void* near_own_new(size_t size) {
  void* block = near::allocate(size);
  if (near::likely(block != nullptr)) return block;
  return near::new_slow(size, near::kBlockAlign, __builtin_return_address(0));
}

void* near_own_new_aligned(size_t size, align_val_t alignment) {
  void* block = near::allocate_aligned(static_cast<size_t>(alignment), size);
  if (near::likely(block != nullptr)) return block;
  return near::new_slow(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}

void near_own_delete(void* block) noexcept { near::release(block); }
void near_own_delete_aligned(void* block, align_val_t) noexcept { near::release(block); }

void* near_own_new_array(size_t size) { return ::operator new(size); }
void* near_own_new_array_aligned(size_t size, align_val_t alignment) {
  return ::operator new(size, alignment);
}

void near_own_delete_array(void* block) noexcept { ::operator delete(block); }
void near_own_delete_array_aligned(void* block, align_val_t alignment) noexcept {
  ::operator delete(block, alignment);
}

}  // extern "C"

NEAR_REPLACEABLE_AS("near_own_new") void* operator new(size_t size);
NEAR_REPLACEABLE_AS("near_own_new_aligned") void* operator new(size_t size, align_val_t alignment);
NEAR_REPLACEABLE_AS("near_own_new_array") void* operator new[](size_t size);
NEAR_REPLACEABLE_AS("near_own_new_array_aligned")
void* operator new[](size_t size, align_val_t alignment);
NEAR_REPLACEABLE_AS("near_own_delete") void operator delete(void* block) noexcept;
NEAR_REPLACEABLE_AS("near_own_delete_aligned")
void operator delete(void* block, align_val_t alignment) noexcept;
NEAR_REPLACEABLE_AS("near_own_delete_array") void operator delete[](void* block) noexcept;
NEAR_REPLACEABLE_AS("near_own_delete_array_aligned")
void operator delete[](void* block, align_val_t alignment) noexcept;

NEAR_REPLACEABLE void operator delete(void* block, const nothrow_t&) noexcept {
  ::operator delete(block);
}
NEAR_REPLACEABLE void operator delete[](void* block, const nothrow_t&) noexcept {
  ::operator delete[](block);
}
NEAR_REPLACEABLE void operator delete(void* block, align_val_t alignment,
                                      const nothrow_t&) noexcept {
  ::operator delete(block, alignment);
}
NEAR_REPLACEABLE void operator delete[](void* block, align_val_t alignment,
                                        const nothrow_t&) noexcept {
  ::operator delete[](block, alignment);
}

namespace {

using Delete = void (*)(void*) noexcept;
using DeleteAligned = void (*)(void*, align_val_t) noexcept;

bool delete_is_ours() { return static_cast<Delete>(&::operator delete) == near_own_delete; }
bool delete_array_is_ours() {
  return delete_is_ours() && static_cast<Delete>(&::operator delete[]) == near_own_delete_array;
}
bool delete_aligned_is_ours() {
  return static_cast<DeleteAligned>(&::operator delete) == near_own_delete_aligned;
}
bool delete_array_aligned_is_ours() {
  return delete_aligned_is_ours() &&
         static_cast<DeleteAligned>(&::operator delete[]) == near_own_delete_array_aligned;
}

}  // namespace

// The sized forms: the check build compares the size with a block that is ours.
NEAR_REPLACEABLE void operator delete(void* block, size_t size) noexcept {
  if (near::kCheckBuild && delete_is_ours()) {
    return near::release_sized(block, size, near::kBlockAlign);
  }
  ::operator delete(block);
}
NEAR_REPLACEABLE void operator delete[](void* block, size_t size) noexcept {
  if (near::kCheckBuild && delete_array_is_ours()) {
    return near::release_sized(block, size, near::kBlockAlign);
  }
  ::operator delete[](block);
}
NEAR_REPLACEABLE void operator delete(void* block, size_t size, align_val_t alignment) noexcept {
  if (near::kCheckBuild && delete_aligned_is_ours()) {
    return near::release_sized(block, size, static_cast<size_t>(alignment));
  }
  ::operator delete(block, alignment);
}
NEAR_REPLACEABLE void operator delete[](void* block, size_t size, align_val_t alignment) noexcept {
  if (near::kCheckBuild && delete_array_aligned_is_ours()) {
    return near::release_sized(block, size, static_cast<size_t>(alignment));
  }
  ::operator delete[](block, alignment);
}
