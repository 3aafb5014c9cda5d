// The design of this library.
#pragma once

#include "designs/super/super.h"

namespace near::design {
using ThisDesign = super::Super;
}  // namespace near::design
