// operator new and delete as [new.delete] defines them: a program may replace each form, and the
// other forms call its replacements.
//
// Each form calls others by their public names, bound by the loader, so a replacement in the
// program gets the call, and no compiler resolves such a call itself (-fsemantic-interposition). In
// archives the names are weak, so that a program with some definitions of its own links. In shared
// libraries no name is weak, because Valgrind replaces no weak function. The hidden names of our
// own forms show whether a public name still means ours.
// Thread-safety: the files of operator new and delete.
#pragma once

#include <cstddef>
#include <new>

#include "base/compiler.h"

#define NEAR_REPLACEABLE __attribute__((visibility("default")))
// On the declaration of a form that is a second name of `own`.
#define NEAR_REPLACEABLE_AS(own) __attribute__((visibility("default"), alias(own)))

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
