// The atomic type of every protocol, and short names for the orders; shared by the allocator and
// the reclamation library.
// The type is std::atomic; the model checker replaces it by its own (tests/model), so it can
// explore, unchanged, a protocol header that uses only this type. Rule: a non-relaxed operation
// names its partner in a comment `pairs: <label>` (ci/check_atomics.py).
#pragma once

#ifdef NEAR_MODEL
#include "model_atomic.h"  // tests/model
#else
#include <atomic>

namespace near {

inline constexpr bool kModel = false;  // true under the model checker

template <typename T>
using Atomic = std::atomic<T>;

// Memory that a protocol orders but that is not atomic itself: a plain T, or a checked one under
// the model checker.
template <typename T>
using Plain = T;

inline constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
inline constexpr std::memory_order kAcquire = std::memory_order_acquire;
inline constexpr std::memory_order kRelease = std::memory_order_release;
inline constexpr std::memory_order kAcqRel = std::memory_order_acq_rel;
inline constexpr std::memory_order kSeqCst = std::memory_order_seq_cst;

}  // namespace near
#endif
