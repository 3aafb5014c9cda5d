// The allocator's clock, which goes as usual except that tests move it on.
// Who may touch it: any thread.
#pragma once

#include <cstdint>

namespace near_test {

void pass_time(uint64_t milliseconds);

}  // namespace near_test
