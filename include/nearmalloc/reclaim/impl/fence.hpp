// The asymmetric fences of reclamation, of which one side runs at every pin and one at every epoch:
// the library's own heavy_fence, which ends the process where membarrier is refused after it worked
// once. What the two sides order: nearmalloc/impl/fence.hpp.
// Who may touch it: any thread. [Dice01]
#pragma once

#include "nearmalloc/impl/fence.hpp"

#ifndef NEAR_MODEL

namespace near::reclaim::impl {

// Registers the process with the kernel, once. False: membarrier is not to be had.
bool membarrier_works() noexcept;

// membarrier where `asymmetric`, else a full fence. Keeps errno.
void heavy_fence(bool asymmetric) noexcept;

}  // namespace near::reclaim::impl

#endif
