// What the kernel reports about this process. No function here allocates.
// Thread-safety: any thread may use it.
#pragma once

#include <cstddef>

namespace near_test {

// Resident bytes, summed over the page tables (exact, unlike the batched counters of statm).
size_t resident_bytes();

// Lines of /proc/self/maps.
size_t mapping_count();

// Page faults without input or output since the process began.
size_t minor_faults();

// Threads that exist now.
size_t thread_count();

}  // namespace near_test
