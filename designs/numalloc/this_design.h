// The design that libnumalloc.so is made of.
#pragma once

#include "designs/numalloc/numalloc.h"

namespace near::design {
using ThisDesign = numalloc::Numalloc;
}  // namespace near::design
