// NEAR_ASSERT: an assertion that only the `check` build compiles in.
// Thread-safety: any code. `fail` is defined in platform/message.cc and does not return.
#pragma once

#include "base/compiler.h"

namespace near {

[[noreturn]] NEAR_COLD void fail(const char* what, const char* file, int line);

}  // namespace near

#define NEAR_ASSERT(condition)                                     \
  do {                                                             \
    if constexpr (::near::kCheckBuild) {                           \
      if (::near::unlikely(!(condition))) {                        \
        ::near::fail("assertion " #condition, __FILE__, __LINE__); \
      }                                                            \
    }                                                              \
  } while (false)
