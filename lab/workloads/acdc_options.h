// The parameters of an ACDC run. Invariant: after check(), every object has room for two links, and
// every set has at least one object and lives at least one quantum. Source: the ACDC of [Aigner13],
// as it is used and described in [Aigner15 §7.3, §7.5, §7.6]; our own words and code.
#pragma once

#include <cstddef>

#include "workload.h"

namespace acdc {

struct Options {
  size_t threads = 2;
  size_t min_exponent = 4;      // sizes from 2^min ...
  size_t max_exponent = 9;      // ... and below 2^max
  size_t liveness_low = 1;      // quanta that a set lives at least ...
  size_t liveness_high = 5;     // ... and at most
  size_t quantum = 1'000'000;   // bytes a thread allocates in a quantum
  size_t cycles = 30;           // quanta
  size_t list_percent = 100;    // sets that are lists; the others are trees
  size_t shared_percent = 100;  // sets that every thread reads, and the last one frees

  void check(const workload::Workload& workload) const {
    workload.require(min_exponent >= 4, "--min-exponent is below 4: two links take 16 bytes");
    workload.require(min_exponent < max_exponent, "--min-exponent is not below --max-exponent");
    workload.require(max_exponent <= 30, "--max-exponent is above 30");
    workload.require(liveness_low <= liveness_high, "--liveness-low is above --liveness-high");
    workload.require(list_percent <= 100, "--list-percent is above 100");
    workload.require(shared_percent <= 100, "--shared is above 100");
  }

  // There are more objects of small size and short life: (S - c + 1)^2 (L - l + 1)^2 in a set.
  size_t objects_of_a_set(size_t exponent, size_t liveness) const {
    const size_t sizes = max_exponent - exponent + 1;
    const size_t lives = liveness_high - liveness + 1;
    return sizes * sizes * lives * lives;
  }

  // An upper bound; the last object may exceed the quantum.
  size_t objects_of_a_quantum() const { return (quantum >> min_exponent) + 1; }
  // Every set except the last of a quantum has at least objects_of_a_set(S - 1, L) = 4 objects.
  size_t sets_of_a_quantum() const { return objects_of_a_quantum() / 4 + 1; }
};

}  // namespace acdc
