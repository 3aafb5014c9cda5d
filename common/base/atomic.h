// near::Atomic and the orders, which the installed headers share.
// Thread-safety: any code.
#pragma once

#include "nearmalloc/impl/atomic.hpp"
