// The thread that gives memory back while the program's threads are busy elsewhere, or asleep.
//
// It exists in processes with more than one thread only, sleeps while nothing is dirty and nobody's
// inbox waits, and ends when no thread has a heap any more (so that a process whose `main` ended by
// pthread_exit can end). After fork the child has none until it becomes multi-threaded itself. On a
// machine of several nodes it visits each of them on CPUs of that node (platform/affinity.h).
// Who may touch it: any thread, without locks held: starting a thread allocates.
#pragma once

namespace near {

// Starts the thread unless it runs or the option forbids it. A refusal is tried again by the next
// caller.
void start_purge_thread();

// One thread more or less has a heap. Returns how many have one now.
int count_thread(int change);

// Around fork.
void lock_purge_thread();
void unlock_purge_thread(bool in_child);

}  // namespace near
