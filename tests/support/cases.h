// Counts what was checked, so that a test that checked nothing fails.
// Invariant: every test that is not skipped counts at least one case; the program ends with the
// line "cases: N".
// Thread-safety: any thread may use it.
#pragma once

#include <cstddef>

namespace near_test {

void count_cases(size_t number = 1);
size_t cases_counted();

// NEAR_TEST_SCALE (default 1) times `full`, at least 1: how much of a long test to run.
size_t scaled(size_t full);

// NEAR_TEST_SEED, else one drawn from the clock; printed once, so that a failure can be repeated.
unsigned long long seed();

}  // namespace near_test
