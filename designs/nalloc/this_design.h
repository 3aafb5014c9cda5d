// The design of this library.
#pragma once

#include "designs/nalloc/nalloc.h"

namespace near::design {
using ThisDesign = nalloc::Nalloc;
}  // namespace near::design
