// What designs/shared compiles malloc from, here.
// Invariant: none. Thread-safety: designs/shared alone includes it.
#pragma once

#include "designs/scalloc/scalloc.h"

namespace near::design {

using ThisDesign = scalloc::Scalloc;

}  // namespace near::design
