// The frequent side of an asymmetric fence, which the allocator and the reclamation library share:
// of a store-then-load (Dekker) handshake, of which one side is frequent and one rare.
//
//   light_fence  the frequent side: keeps the compiler from reordering, and costs nothing else
//   heavy_fence  the rare side: membarrier(2) makes every running thread of the process execute a
//                full fence, wherever it is; each library has its own
// Invariant: together they order as two sequentially consistent fences do; where the kernel refuses
// membarrier (`asymmetric` false) that is what both are. Two light fences order nothing.
// Who may touch it: any thread. [Dice01]
#pragma once

#include "nearmalloc/impl/atomic.hpp"

#ifndef NEAR_MODEL

// GCC says, in the program that includes this, that its thread sanitizer does not follow fences.
// Clang does not know that warning, nor GCC the one about warnings that are not known.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wtsan"

namespace near {

inline void light_fence(bool asymmetric) noexcept {
  if (asymmetric) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: asymmetric-fence
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs: asymmetric-fence
  }
}

}  // namespace near

#pragma GCC diagnostic pop

#else
#include "model_fence.h"  // tests/model

namespace near {

inline bool heavy_fence(bool asymmetric, Place place = Place::current()) {
  model_heavy_fence(asymmetric, place);
  return true;
}
inline void light_fence(bool asymmetric, Place place = Place::current()) {
  model_light_fence(asymmetric, place);
}

}  // namespace near
#endif
