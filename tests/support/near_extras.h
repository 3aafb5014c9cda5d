// nearmalloc's own functions, for programs that may run on any allocator: null where the process
// has no nearmalloc.
// Invariant: a program started with NEAR_TEST_EXPECT=near fails unless nearmalloc is there.
// Thread-safety: any thread may use it.
#pragma once

#include <nearmalloc/nearmalloc.h>

#pragma weak near_version
#pragma weak near_check
#pragma weak near_owns
#pragma weak near_node_of
#pragma weak near_get_stats
#pragma weak near_free_batch
#pragma weak near_set_option
#pragma weak near_get_option

extern "C" const char* near_design_name(void) noexcept __attribute__((weak));

namespace near_test {

// The published design under test, "" if it is none.
const char* design_under_test();

// True if the allocator under test is nearmalloc, so that a test may require what only nearmalloc
// promises.
bool on_nearmalloc();

// True if it is one with run-time checks (the `check` build).
bool on_check_build();

// The number of violations near_check() sees; 0 on other allocators.
size_t violations();

}  // namespace near_test
