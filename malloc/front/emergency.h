// Memory for a slow path that a signal handler enters while its thread is inside another one: the
// thread may hold the locks that the slow path needs.
//
// POSIX allows no malloc there. But a child that a handler forked, or a handler that reports a
// crash, should reach its execve or _exit. So it gets blocks of a small pool, which are never
// reused; freeing one has no effect.
// Invariant: no lock is taken and only the pool is touched.
// Thread-safety: any thread, also in a signal handler.
#pragma once

#include <cstddef>

namespace near {

// Returns a block of fresh, zeroed memory; null with ENOMEM if the pool is used up or refused.
void* take_emergency(size_t size, size_t alignment);

// True for the blocks of take_emergency, which have no span.
bool is_emergency(const void* block);

// Returns the bytes usable in such a block.
size_t emergency_size(const void* block);

}  // namespace near
