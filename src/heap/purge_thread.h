// The helper thread, the purge thread: it gives memory back while the program's threads are busy
// elsewhere, or asleep.
//
// It exists only while the process has at least two other threads that count, so that it never is
// the last one. It is started where a thread is created anyway: by the interposed pthread_create
// (shim/thread_create.cc) before the new thread, or, in the libraries that interpose nothing, at
// the first allocation of the second thread. The thread that leaves only one behind stops it and
// waits until it is gone. Starts are rationed, so that a program that creates and joins one thread
// after another does not pay for it each time. After fork the child has none.
// It sleeps while nothing is dirty and no owner's inbox waits. On a machine of several nodes it
// visits each of them on CPUs of that node (platform/affinity.h).
// docs/decisions/0014-helper-thread-and-fork.md
// Invariant: state == running, starting or stopping if and only if the thread exists or is being
// made or joined; purge_signal.present() only if it is running or being made.
// Who may touch it: any thread that is outside (sync/inside.h): starting and joining a thread
// allocates and frees.
#pragma once

#include <pthread.h>

namespace near {

// How a thread is created: pthread_create, or what it was before it was interposed.
using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
void create_helper_by(CreateThread* create);

// One counted thread more. With `may_start` the helper starts if it is needed and allowed.
void count_thread(bool may_start);

// One counted thread less; if that leaves fewer than two, the helper has ended when it returns.
void discount_thread();

// The option changed: ends the helper and waits for that, or starts it if it is needed.
void obey_purge_option();

// The system has no room for another thread: ends the helper, which makes room for one, and keeps
// it away for a while. False if there is none.
bool give_up_purge_thread();

// Around fork.
void lock_purge_thread();
void unlock_purge_thread();

// In the child, whatever the locks are: `counted` threads are left, none or one.
void forget_purge_thread(int counted);

}  // namespace near
