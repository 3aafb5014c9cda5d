// The ranks of locks in designs, which have few and shallow ones: a thread that holds one may take
// only lower ones. Names for values of Rank (sync/mutex.h), which are the allocator's.
// Thread-safety: constants.
#pragma once

#include "sync/mutex.h"

namespace near::design {

inline constexpr Rank kInnermostRank = Rank::node;
inline constexpr Rank kInnerRank = Rank::regions;
inline constexpr Rank kMiddleRank = Rank::registry;
inline constexpr Rank kUpperRank = Rank::heap;
inline constexpr Rank kOuterRank = Rank::start;

}  // namespace near::design
