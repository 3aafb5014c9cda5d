// Every replaceable form of operator new and delete. [ISO C++20, new.delete]
#include <cstddef>
#include <new>

#include "front/front.h"
#include "shim/new_slow.h"

namespace {

NEAR_INLINE void* make(size_t size) {
  void* block = near::allocate(size);
  return near::likely(block != nullptr) ? block : near::new_slow(size, near::kBlockAlign);
}

NEAR_INLINE void* make_nothrow(size_t size) {
  void* block = near::allocate(size);
  return near::likely(block != nullptr) ? block : near::new_slow_nothrow(size, near::kBlockAlign);
}

NEAR_INLINE void* make(size_t size, std::align_val_t alignment) {
  void* block = near::allocate_aligned(static_cast<size_t>(alignment), size);
  return near::likely(block != nullptr) ? block
                                        : near::new_slow(size, static_cast<size_t>(alignment));
}

NEAR_INLINE void* make_nothrow(size_t size, std::align_val_t alignment) {
  void* block = near::allocate_aligned(static_cast<size_t>(alignment), size);
  return near::likely(block != nullptr)
             ? block
             : near::new_slow_nothrow(size, static_cast<size_t>(alignment));
}

}  // namespace

using std::align_val_t;
using std::nothrow_t;

NEAR_EXPORT void* operator new(size_t size) { return make(size); }
NEAR_EXPORT void* operator new[](size_t size) { return make(size); }
NEAR_EXPORT void* operator new(size_t size, const nothrow_t&) noexcept {
  return make_nothrow(size);
}
NEAR_EXPORT void* operator new[](size_t size, const nothrow_t&) noexcept {
  return make_nothrow(size);
}
NEAR_EXPORT void* operator new(size_t size, align_val_t alignment) { return make(size, alignment); }
NEAR_EXPORT void* operator new[](size_t size, align_val_t alignment) {
  return make(size, alignment);
}
NEAR_EXPORT void* operator new(size_t size, align_val_t alignment, const nothrow_t&) noexcept {
  return make_nothrow(size, alignment);
}
NEAR_EXPORT void* operator new[](size_t size, align_val_t alignment, const nothrow_t&) noexcept {
  return make_nothrow(size, alignment);
}

NEAR_EXPORT void operator delete(void* block) noexcept { near::release(block); }
NEAR_EXPORT void operator delete[](void* block) noexcept { near::release(block); }
NEAR_EXPORT void operator delete(void* block, const nothrow_t&) noexcept { near::release(block); }
NEAR_EXPORT void operator delete[](void* block, const nothrow_t&) noexcept { near::release(block); }
NEAR_EXPORT void operator delete(void* block, size_t size) noexcept {
  near::release_sized(block, size);
}
NEAR_EXPORT void operator delete[](void* block, size_t size) noexcept {
  near::release_sized(block, size);
}
NEAR_EXPORT void operator delete(void* block, align_val_t) noexcept { near::release(block); }
NEAR_EXPORT void operator delete[](void* block, align_val_t) noexcept { near::release(block); }
NEAR_EXPORT void operator delete(void* block, align_val_t, const nothrow_t&) noexcept {
  near::release(block);
}
NEAR_EXPORT void operator delete[](void* block, align_val_t, const nothrow_t&) noexcept {
  near::release(block);
}
NEAR_EXPORT void operator delete(void* block, size_t size, align_val_t) noexcept {
  near::release_sized(block, size);
}
NEAR_EXPORT void operator delete[](void* block, size_t size, align_val_t) noexcept {
  near::release_sized(block, size);
}
