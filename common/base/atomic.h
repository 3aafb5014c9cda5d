// near::Atomic and the memory orders. The installed headers use the same ones.
// Thread-safety: any code.
#pragma once

#include "nearmalloc/impl/atomic.hpp"

#ifndef NEAR_MODEL

namespace near {

// A plain word that one thread uses atomically for once.
template <typename T>
using AtomicRef = std::atomic_ref<T>;

}  // namespace near

#endif
