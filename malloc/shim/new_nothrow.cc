// The forms of operator new that return null. Each calls its throwing form and catches what that
// throws; if that form is ours, it allocates directly instead. This file is compiled without a PLT,
// as new_delete.cc is.
#include "front/front.h"
#include "shim/new_slow.h"
#include "shim/replaceable.h"

using std::align_val_t;
using std::nothrow_t;

// Weak, since otherwise a compiler may assume that they differ from our own.
extern "C" {
__attribute__((weak)) void* public_new(size_t size) __asm__("_Znwm");
__attribute__((weak)) void* public_new_array(size_t size) __asm__("_Znam");
__attribute__((weak)) void* public_new_aligned(size_t size, align_val_t alignment) __asm__(
    "_ZnwmSt11align_val_t");
__attribute__((weak)) void* public_new_array_aligned(size_t size, align_val_t alignment) __asm__(
    "_ZnamSt11align_val_t");
}

namespace {

NEAR_INLINE bool new_is_ours() { return near::likely(public_new == near_own_new); }
NEAR_INLINE bool new_aligned_is_ours() {
  return near::likely(public_new_aligned == near_own_new_aligned);
}

NEAR_INLINE void* make(size_t size) {
  void* block = near::allocate(size);
  if (near::likely(block != nullptr)) return block;
  return near::new_slow_nothrow(size, near::kBlockAlign, __builtin_return_address(0));
}

NEAR_INLINE void* make(size_t size, align_val_t alignment) {
  void* block = near::allocate_aligned(static_cast<size_t>(alignment), size);
  if (near::likely(block != nullptr)) return block;
  return near::new_slow_nothrow(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}

}  // namespace

NEAR_REPLACEABLE void* operator new(size_t size, const nothrow_t&) noexcept {
  return new_is_ours() ? make(size) : near::call_nothrow(public_new, size);
}
NEAR_REPLACEABLE void* operator new[](size_t size, const nothrow_t&) noexcept {
  const bool is_ours = new_is_ours() && near::likely(public_new_array == near_own_new_array);
  return is_ours ? make(size) : near::call_nothrow(public_new_array, size);
}
NEAR_REPLACEABLE void* operator new(size_t size, align_val_t alignment, const nothrow_t&) noexcept {
  return new_aligned_is_ours() ? make(size, alignment)
                               : near::call_nothrow(public_new_aligned, size, alignment);
}
NEAR_REPLACEABLE void* operator new[](size_t size, align_val_t alignment,
                                      const nothrow_t&) noexcept {
  const bool is_ours =
      new_aligned_is_ours() && near::likely(public_new_array_aligned == near_own_new_array_aligned);
  return is_ours ? make(size, alignment)
                 : near::call_nothrow(public_new_array_aligned, size, alignment);
}
