// The end of a request that finds no memory: ISO C and POSIX require a null pointer and ENOMEM.
// Any thread may call it.

#pragma once

#include <errno.h>

#include "base/compiler.h"

namespace near {

NEAR_COLD inline void* refuse() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace near
