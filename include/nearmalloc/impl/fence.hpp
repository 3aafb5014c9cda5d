// The frequent side of an asymmetric fence, which the allocator and the reclamation library share.
// It is for a store-then-load (Dekker) handshake with one frequent and one rare side.
//
//   light_fence  the frequent side: keeps the compiler from reordering, and costs nothing else
//   heavy_fence  the rare side: membarrier(2) makes every running thread of the process execute a
//                full fence, wherever it is; each library has its own
// Invariant: together they order as two sequentially consistent fences do. Where the kernel refuses
// membarrier (`asymmetric` false), both are such fences. Two light fences order nothing.
// Thread-safety: any thread. [Dice01]
#pragma once

#include "nearmalloc/impl/atomic.hpp"

#ifndef NEAR_MODEL

// In a program that includes this, GCC warns that its thread sanitizer does not follow fences.
// Clang does not know that warning; GCC does not know the one about unknown warnings.
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
