// near::Atomic and the orders, which the installed headers share.
// Who may touch it: any code.
#pragma once

#include "nearmalloc/impl/atomic.hpp"
