// A random number that differs from process to process.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

namespace near {

// Returns the same number at each call. It is made from the random bytes that the kernel gives a
// process at exec, so it needs no system call, which a sandbox could refuse. It does not reveal
// these bytes, from which the C library makes its stack guard.
uint64_t process_random();

}  // namespace near
