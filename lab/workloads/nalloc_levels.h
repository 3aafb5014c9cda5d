// The probability that the next operation on a pool of blocks allocates: 75 % below 500 blocks for
// each list, 50 % below 1000, 25 % below 2000, 0 above. Invariant: a pool that follows it never
// holds more than kFullest blocks for each list. Source: nalloc's tests [Podolsky13].
#pragma once

#include "random.h"

namespace workload {

inline constexpr size_t kFullest = 2000;

inline bool allocates_next(Random& random, size_t held, size_t lists) {
  const size_t quarters = held < 500 * lists        ? 3
                          : held < 1000 * lists     ? 2
                          : held < kFullest * lists ? 1
                                                    : 0;
  return held == 0 || random.below(4) < quarters;
}

}  // namespace workload
