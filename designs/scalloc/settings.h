// The switches of the paper's ablations, in the form that the code uses.
// Invariant: constant after start.
// Thread-safety: written once, by apply_switches; read by any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/compiler.h"
#include "designs/scalloc/guard.h"
#include "designs/scalloc/life_cycle.h"
#include "designs/scalloc/size_class.h"
#include "designs/shared/switches.h"

namespace near::design::scalloc {

enum class Madvise : long { off, on, eager };
enum class LabModel : long { tlab, clab };

struct Settings {
  Madvise madvise;
  bool one_stack;  // one stack for each real-span size of the span-pool
  Reclaim reclaim;
  LabModel lab;
  bool huge_pages;
  bool list_front;  // SuperMalloc's lists of threads are in front
  Guard guard;
  size_t virtual_span = kLeastVirtualSpan;  // bytes of each span, a power of two
  bool asymmetric;                          // membarrier is available: local frees need no fence
  // For each class: how many free blocks make a span reusable; how many may change its state.
  int32_t reusable_at[kClasses];
  int32_t event_at[kClasses];
};

NEAR_HIDDEN extern Settings settings;

std::span<Switch> switches();
void apply_switches();

}  // namespace near::design::scalloc
