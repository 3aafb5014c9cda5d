// Asymmetric fences: light_fence, which the installed headers share, and its partner heavy_fence,
// which asks the kernel. What the two order: nearmalloc/impl/fence.hpp.
// Thread-safety: any thread. [Dice01]
#pragma once

#include "nearmalloc/impl/fence.hpp"

#ifndef NEAR_MODEL

namespace near {

// Registers the process with the kernel. False: membarrier is not to be had. Keeps errno.
bool register_membarrier();

// membarrier where `asymmetric`, else a full fence. False if it was refused. Keeps errno.
bool heavy_fence(bool asymmetric);

}  // namespace near

#endif
