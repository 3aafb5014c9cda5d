// The helper thread, or purge thread: it gives memory back while the program's threads are busy or
// idle.
//
// It exists only while the process has at least two other threads that count, so it is never the
// last one. It is started where a thread is created anyway: by the interposed pthread_create
// (shim/thread_create.cc) before the new thread, or, in the libraries that interpose nothing, at
// the first allocation of the second thread. A thread that ends and leaves only one other stops the
// helper and waits until it has ended. Starts are rationed, so that a program that creates and
// joins one thread after another does not pay for it each time. After fork the child has none.
// It waits while nothing is dirty and no owner's inbox waits. On a machine of several nodes it
// visits each of them on CPUs of that node (platform/affinity.h).
// docs/decisions/0014-helper-thread-and-fork.md
// Invariant: state == running, starting or stopping if and only if the thread exists or is being
// made or joined; purge_signal.present() only if it is running or being made.
// Thread-safety: any thread that is outside (sync/inside.h): starting and joining a thread
// allocates and frees.
#pragma once

#include <pthread.h>

namespace near {

// How a thread is created: pthread_create, or the next one where it is interposed.
using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
void create_helper_by(CreateThread* create);

// Counts one thread more. With `may_start` the helper starts if it is needed and allowed.
void count_thread(bool may_start);

// Counts one thread less. If fewer than two are left, the helper has ended when this returns.
void discount_thread();

// Applies a changed option: ends the helper and waits for that, or starts it if it is needed.
void obey_purge_option();

// Called when the system has no room for another thread: ends the helper, which makes room for one,
// and prevents a new start for a while. False if there is no helper.
bool give_up_purge_thread();

// Called around fork.
void lock_purge_thread();
void unlock_purge_thread();

// Called in the child, whatever the state of the locks: `counted` threads are left, none or one.
void forget_purge_thread(int counted);

}  // namespace near
