// Lets a thread sleep on a word. Thread-safety: any thread; errno is kept.
#pragma once

#include <cstdint>

#include "base/atomic.h"

namespace near {

// Sleeps while `word` holds `value`, until woken; may return early.
void futex_wait(Atomic<uint32_t>& word, uint32_t value);

// As futex_wait, for at most `milliseconds`.
void futex_wait_for(Atomic<uint32_t>& word, uint32_t value, uint32_t milliseconds);

void futex_wake(Atomic<uint32_t>& word, int sleepers);

// True if the four bytes at `word`, a multiple of 4, are zero. False if the kernel cannot read the
// address, so any address may be asked for. An unwritten page stays without memory of its own.
bool futex_reads_zero(uintptr_t word);

}  // namespace near
