// The switches in the form that the code uses.
// Thread-safety: written at start, read by any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/compiler.h"
#include "designs/numalloc/size_class.h"
#include "designs/shared/switches.h"

namespace near::design::numalloc {

struct Settings {
  bool origin_aware = true;
  bool huge_pages = true;
  bool incremental = true;
  uint32_t batch[kClasses] = {};
};

NEAR_HIDDEN extern Settings settings;

std::span<Switch> switches();
void apply_switches();

}  // namespace near::design::numalloc
