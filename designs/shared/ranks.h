// The ranks of locks in designs, which have few locks with shallow nesting: a thread that holds a
// lock may take only locks of lower rank. The values are those of Rank (sync/mutex.h).
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
