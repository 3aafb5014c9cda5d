// Starting, stopping and writing the sampling profiler, by the API and by the option `profile`.
// Thread-safety: any thread, without locks held; not from a handler of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "profile/write.h"

namespace near {

// Samples from now on. `mean` 0: as the option says. Returns 0, EALREADY, EINVAL or ENOMEM.
int start_profile(size_t mean);
// Called in a child of fork, which lacks the threads that were writing the profile.
void forget_profile_writers();
// The same; and the child's profile is not in the file of its parent.
void keep_profile_of_child();
// Returns 0, or EALREADY if the profiler did not run.
int stop_profile();

// Returns 0; EIO, EINVAL (no such format), or ENODATA if nothing was recorded.
int write_profile(FILE* stream, long format);

// Writes a file in jeprof's format; with a null `path` the file is jeprof.<process>.<n>.m<n>.heap.
// False if nothing was recorded, or the file cannot be written.
bool write_jeprof_file(const char* path);

}  // namespace near
