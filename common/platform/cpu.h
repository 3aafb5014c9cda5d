// The CPU that the calling thread runs on; found without a system call where glibc registered rseq.
// Thread-safety: any thread. The answer may be stale when it is returned.
#pragma once

namespace near {

// The CPU number, or 0 if it is unknown.
unsigned current_cpu();

}  // namespace near
