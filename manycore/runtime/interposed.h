// For the functions of libc that the runtime replaces.
#pragma once

#include "engine/engine.h"

#define NEAR_INTERPOSED extern "C" __attribute__((visibility("default")))
#define NEAR_SITE __builtin_return_address(0)

namespace near::manycore {

// The real function of this name: `real_function<decltype(&open)>("open")`.
template <typename Function>
Function real_function(const char* name) {
  return reinterpret_cast<Function>(real(name));
}

}  // namespace near::manycore

// The real function `name`, which is looked up once.
#define NEAR_REAL(name)                                                                     \
  ([] {                                                                                     \
    static const auto found = near::manycore::real_function<decltype(&::name)>(#name);      \
    return found;                                                                           \
  }())
