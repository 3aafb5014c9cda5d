// Reports a design's counters, as text and to programs.
// Thread-safety: any thread; counters of other threads may be stale.
#pragma once

#include "base/compiler.h"
#include "designs/shared/design.h"

namespace near::design {

// Prints one line for each counter on stderr; does not allocate.
void print_summary();

}  // namespace near::design

extern "C" {

// The name of the design of this library; tests check whether the symbol exists.
NEAR_EXPORT const char* near_design_name(void) noexcept;

// Fills `out`, which has room for near::design::kMaxCounters, and returns how many there are.
NEAR_EXPORT size_t near_design_counters(near::design::Counter* out) noexcept;

}  // extern "C"
