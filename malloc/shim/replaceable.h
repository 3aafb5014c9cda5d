// operator new and delete as [new.delete] defines them: a program may replace each form, and the
// forms that it does not replace call its replacements.
//
// The forms call each other by their public names, which the loader binds, so a replacement in the
// program gets the call. All are weak, so that a program that defines some of them can link to the
// archive, and no compiler resolves such a call itself. The hidden names of our own forms show
// whether a public name still means ours.
// Thread-safety: the files of operator new and delete.
#pragma once

#include <cstddef>
#include <new>

#include "base/compiler.h"

#define NEAR_REPLACEABLE __attribute__((visibility("default"), weak))
// On the declaration of a form that is a second name of `own`.
#define NEAR_REPLACEABLE_AS(own) __attribute__((visibility("default"), weak, alias(own)))

extern "C" {
NEAR_HIDDEN void* near_own_new(size_t size);
NEAR_HIDDEN void* near_own_new_array(size_t size);
NEAR_HIDDEN void* near_own_new_aligned(size_t size, std::align_val_t alignment);
NEAR_HIDDEN void* near_own_new_array_aligned(size_t size, std::align_val_t alignment);
NEAR_HIDDEN void near_own_delete(void* block) noexcept;
NEAR_HIDDEN void near_own_delete_array(void* block) noexcept;
NEAR_HIDDEN void near_own_delete_aligned(void* block, std::align_val_t alignment) noexcept;
NEAR_HIDDEN void near_own_delete_array_aligned(void* block, std::align_val_t alignment) noexcept;
}
