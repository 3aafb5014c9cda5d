// Virtual time.
#pragma once

#include <cstdint>

namespace near::manycore {

using Time = uint64_t;  // picoseconds since the start of the run

inline constexpr Time kNanosecond = 1000;

}  // namespace near::manycore
