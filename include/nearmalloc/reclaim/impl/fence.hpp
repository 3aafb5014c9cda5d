// The asymmetric fences of reclamation, of which one side runs at every pin and one at every epoch:
// the library's own heavy_fence, which waits where membarrier is refused after it worked once. What
// the two sides order: nearmalloc/impl/fence.hpp.
// Who may touch it: any thread. [Dice01; Morrison15]
#pragma once

#include "nearmalloc/impl/fence.hpp"

#ifndef NEAR_MODEL

namespace near::reclaim::impl {

// Registers the process with the kernel, once. False: membarrier is refused, at first or since.
bool membarrier_works() noexcept;

// membarrier where `asymmetric`, else a full fence. Keeps errno. Where membarrier is refused since:
// a full fence and a wait (reclaim/fence.cc).
void heavy_fence(bool asymmetric) noexcept;

}  // namespace near::reclaim::impl

#endif
