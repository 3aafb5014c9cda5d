// The design of this library.
#pragma once

#include "designs/hoard/hoard.h"

namespace near::design {
using ThisDesign = hoard::Hoard;
}  // namespace near::design
