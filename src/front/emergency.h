// Memory for a slow path that is entered from inside another one, by a signal handler: the locks
// may be those that its own thread holds, here or, after a fork, in the parent.
//
// POSIX allows no malloc there. But a child that a handler forked, or a handler that reports a
// crash, shall come to its execve or _exit. So it gets blocks of a small pool, which are never
// reused, and what it frees stays.
// Invariant: no lock is taken and nothing is touched but the pool.
// Thread-safety: any thread, also in a signal handler.
#pragma once

#include <cstddef>

namespace near {

// A block of fresh, zeroed memory; null with ENOMEM if the pool is used up or refused.
void* take_emergency(size_t size, size_t alignment);

// True for the blocks of take_emergency, which have no span.
bool is_emergency(const void* block);

// The bytes usable in such a block.
size_t emergency_size(const void* block);

}  // namespace near
