// The design from which libnumalloc.so is made.
#pragma once

#include "designs/numalloc/numalloc.h"

namespace near::design {
using ThisDesign = numalloc::Numalloc;
}  // namespace near::design
