// Makes memory behind a real span fault, with few system calls.
//
// Guard markers (Linux 6.13) are stored in the page table, so they do not divide mappings, and one
// call installs those of a whole batch of fresh spans. mprotect needs a call for each span, as the
// published program makes when it is strict, and two mappings, of which a process has 65,530.
// Markers reach to the end of the first 2 MiB of a virtual span: beyond that each 2 MiB would need
// a page of page table. mprotect reaches to the end of the span.
// Invariant: [start, start + accessible) of a span can be read and written. Memory behind it, as
// far as guards reach, faults; without markers in the kernel, nothing faults.
// Thread-safety: only the thread that has the span or the batch. [Aigner15 §3.2]
#pragma once

#include <cstddef>
#include <cstdint>

namespace near::design::scalloc {

enum class Guard : long { markers, mprotect, off };

// Makes `count` never-used spans from `start` on fault from `accessible` on. False if they do not
// fault.
bool guard_batch(char* start, size_t count, size_t accessible);

// The most spans that one call can guard.
inline constexpr size_t kMostInBatch = 256;

// Changes how much of the span at `start` is accessible; its contents beyond are lost. Returns how
// much is accessible now: less than `wanted` if memory is refused, and more if guards are
// unavailable.
size_t move_guard(char* start, size_t accessible, size_t wanted);

}  // namespace near::design::scalloc
