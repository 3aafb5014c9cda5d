// Which CPU the calling thread runs on: without a system call where glibc registered rseq.
// Thread-safety: any thread. The answer may be stale when it is returned.
#pragma once

namespace near {

// The CPU number, or 0 where nothing is known.
unsigned current_cpu();

}  // namespace near
