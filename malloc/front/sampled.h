// malloc, free and realloc as the sampling profiler needs them (profile/profiler.h).
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstddef>

#include "profile/profiler.h"
#include "profile/spans.h"
#include "span/layout.h"

namespace near {

// As allocate_slow, while the profiler runs: counts the request, and returns a sampled block if one
// is due. `asked`: what the profile says of its size, at most `size`.
NEAR_NOINLINE void* allocate_counted(size_t size, size_t asked);

// Called when the thread's heap took a block from a magazine, on behalf of a request that its free
// lists did not serve. Small ones are counted here, others before.
void count_put_away(unsigned size_class);

// Counts a request for a class. Returns a sampled block if one is due and there is memory for it;
// null otherwise: the caller takes an ordinary block.
void* take_if_due(Shard& shard, size_t size, unsigned size_class, bool strict);

// Counts a request for a large block, which was taken from its node already. Not where the block is
// made: functions down there use the frame pointer's register, by which `profile_stacks` = frames
// finds the caller.
NEAR_NOINLINE void count_large(void* block, size_t size);

// Called after a large block of `before` bytes was resized in place. What it grew by counts as
// allocated; a block that shrinks counts as freed and allocated again.
NEAR_NOINLINE void count_resized(Span& span, size_t before, size_t size);

// Frees a sampled block. Reports it if none is live at the address.
NEAR_NOINLINE void release_sampled(Span& span, void* block);

}  // namespace near
