// operator new and delete that notice errors of a reclamation scheme: an object deleted twice,
// written or read after its end, or never deleted. They also refuse memory on demand.
//
// Invariant: a block from new is live until delete, once. A deleted one is filled with a pattern
// and kept aside for a while: a read finds the pattern, a write is found when the block is freed.
// Thread-safety: any thread may use it; refusals affect the thread that asked.
#pragma once

#include <cstddef>

namespace near_test {

// Weak: sanitizers do these checks themselves, and their builds leave this heap out.
[[gnu::weak]] size_t live_blocks();

// Effect: the calling thread's `operator new` number `number` from now on refuses, and all after it
// until the next call; 0: none does.
[[gnu::weak]] void refuse_memory_after(size_t number);

// Effect: blocks kept aside are checked and freed.
[[gnu::weak]] void drain_quarantine();

inline bool has_checked_heap() { return &live_blocks != nullptr; }

}  // namespace near_test
