// The design of this library.
#pragma once

#include "designs/a2alloc/a2alloc.h"

namespace near::design {
using ThisDesign = a2alloc::A2alloc;
}  // namespace near::design
