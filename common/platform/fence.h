// Asymmetric fences: light_fence (defined in the installed headers) and its partner heavy_fence,
// which calls the kernel. nearmalloc/impl/fence.hpp says what the two order.
// Thread-safety: any thread. [Dice01]
#pragma once

#include "nearmalloc/impl/fence.hpp"

#ifndef NEAR_MODEL

namespace near {

// Registers the process with the kernel. False: membarrier is unavailable. Keeps errno.
bool register_membarrier();

// A full fence; with `asymmetric` also membarrier. False if the kernel refused. Keeps errno.
bool heavy_fence(bool asymmetric);

}  // namespace near

#endif
