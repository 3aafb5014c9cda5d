// The asymmetric fences of reclamation: the light side runs at every pin, the heavy side at every
// epoch. This is the library's own heavy_fence, which waits where membarrier worked once and is now
// refused. nearmalloc/impl/fence.hpp says what the two sides order.
// Thread-safety: any thread. [Dice01; Morrison15]
#pragma once

#include "nearmalloc/impl/fence.hpp"

namespace near::reclaim::impl {

void yield() noexcept;  // lets other threads run

}  // namespace near::reclaim::impl

#ifndef NEAR_MODEL

namespace near::reclaim::impl {

// Registers the process with the kernel, once. False: membarrier was refused, then or later.
bool membarrier_works() noexcept;

// Executes membarrier if `asymmetric`, else a full fence. Keeps errno. If membarrier is now
// refused: a full fence and a wait (reclaim/fence.cc).
void heavy_fence(bool asymmetric) noexcept;

}  // namespace near::reclaim::impl

#endif
