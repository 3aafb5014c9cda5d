// The allocator's clock: it runs as usual, and tests can advance it.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace near_test {

void pass_time(uint64_t milliseconds);

}  // namespace near_test
