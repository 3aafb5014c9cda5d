// near::Atomic and the memory orders. The installed headers use the same ones.
// Thread-safety: any code.
#pragma once

#include "nearmalloc/impl/atomic.hpp"
