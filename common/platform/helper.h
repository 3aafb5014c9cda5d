// How a thread of the library behaves in the system: it has a name, and nothing of what its creator
// has for other purposes.
//
// Every system call here is one that a filter (seccomp) may punish, so there are no more than
// needed, and none is repeated that had no effect.
// Thread-safety: the helper thread, for itself; `is_main_thread` any thread.
#pragma once

namespace near {

// True for the thread that began the process.
bool is_main_thread();

// The calling thread gets a name and normal scheduling, and gives up the capabilities that it will
// never need. With `stray` its creator was not the main thread, whose CPUs it takes.
// Returns true if capabilities are left, which follow_capabilities takes away when it is time.
bool become_helper(const char* name, bool stray);

// Gives up what the main thread has given up. Returns true if something is left.
bool follow_capabilities();

}  // namespace near
