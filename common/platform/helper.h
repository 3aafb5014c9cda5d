// The name, scheduling and capabilities of a thread of the library: it does not keep those that its
// creator has for other purposes.
//
// A filter (seccomp) may end the process for any system call here, so only the necessary ones are
// made, and a call that had no effect is not repeated.
// Thread-safety: the helper thread, for itself; `is_main_thread`: any thread.
#pragma once

namespace near {

// True for the thread that began the process.
bool is_main_thread();

// The calling thread gets a name and normal scheduling, and gives up the capabilities that it will
// never need. `stray`: its creator was not the main thread, so it takes the main thread's CPUs.
// Returns true if capabilities are left, which follow_capabilities can give up later.
bool become_helper(const char* name, bool stray);

// Gives up the capabilities that the main thread has given up. Returns true if some are left.
bool follow_capabilities();

}  // namespace near
