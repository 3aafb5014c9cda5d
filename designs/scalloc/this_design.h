// The type from which designs/shared builds this library's malloc.
// Thread-safety: only designs/shared includes it.
#pragma once

#include "designs/scalloc/scalloc.h"

namespace near::design {

using ThisDesign = scalloc::Scalloc;

}  // namespace near::design
