// Calls of the kernel that are simulated or passed on.
#pragma once

#include <errno.h>

#include "engine/host.h"

namespace near::manycore {

// The result as libc's functions give it: -1 and errno for an error.
inline long answer(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

// Whether a call of syscall() is simulated there; then `result` is the kernel's.
bool simulated_mapping(long number, const long (&a)[6], long& result);
bool simulated_identity(long number, const long (&a)[6], long& result);

}  // namespace near::manycore
