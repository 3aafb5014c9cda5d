// Large blocks have a list and a lock of their own, so that a large allocation delays only another
// one. [Boritz §2 "Large Allocations"]
// Thread-safety: any thread.
#pragma once

#include "designs/shared/page_runs.h"

namespace near::design::a2alloc {

extern design::PageRuns large_list;

}  // namespace near::design::a2alloc
