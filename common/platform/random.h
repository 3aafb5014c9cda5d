// A random number for the process.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace near {

// The same at each call: made from the random bytes that the kernel gives a process at exec, so
// that it needs no system call, which a sandbox could refuse. Tells nothing of these bytes, by
// which the C library guards stacks.
uint64_t process_random();

}  // namespace near
