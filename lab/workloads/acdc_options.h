// What an ACDC run is made of. Invariant: after check(), every object has room for two links, every
// set at least one object and one quantum to live. Source: the ACDC of [Aigner13], as it is used
// and described in [Aigner15 §7.3, §7.5, §7.6]; our own words and code.
#pragma once

#include <cstddef>

#include "mapped.h"

namespace acdc {

struct Options {
  size_t threads = 2;
  size_t min_exponent = 4;      // sizes from 2^min ...
  size_t max_exponent = 9;      // ... up to, but not, 2^max
  size_t liveness_low = 1;      // quanta a set lives
  size_t liveness_high = 5;     //
  size_t quantum = 1'000'000;   // bytes a thread allocates in a quantum
  size_t cycles = 30;           // quanta
  size_t list_percent = 100;    // sets that are lists; the others are trees
  size_t shared_percent = 100;  // sets that every thread reads, and the last one frees

  void check() const {
    // Two links take 16 bytes.
    if (min_exponent < 4 || max_exponent <= min_exponent || max_exponent > 30)
      workload::refuse("acdc", "needs 4 <= --min-exponent < --max-exponent <= 30");
    if (liveness_low == 0 || liveness_high < liveness_low)
      workload::refuse("acdc", "needs 1 <= --liveness-low <= --liveness-high");
    if (list_percent > 100 || shared_percent > 100)
      workload::refuse("acdc", "--list-percent and --shared are at most 100");
    if (threads == 0 || quantum == 0 || cycles == 0)
      workload::refuse("acdc", "--threads, --quantum and --cycles are at least 1");
  }

  // Small and short-lived objects are many: (S - c + 1)^2 (L - l + 1)^2 in a set.
  size_t objects_of_a_set(size_t exponent, size_t liveness) const {
    const size_t sizes = max_exponent - exponent + 1;
    const size_t lives = liveness_high - liveness + 1;
    return sizes * sizes * lives * lives;
  }

  // At most so many fit into a quantum; the last object may exceed it.
  size_t objects_of_a_quantum() const { return (quantum >> min_exponent) + 1; }
  // No set but the last of a quantum is smaller than objects_of_a_set(S - 1, L) = 4.
  size_t sets_of_a_quantum() const { return objects_of_a_quantum() / 4 + 1; }
};

}  // namespace acdc
