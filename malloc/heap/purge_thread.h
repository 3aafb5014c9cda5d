// The helper thread, or purge thread: it gives memory back while the program's threads are busy or
// idle.
//
// It exists only while the process has at least two other counted threads, so it is never the last
// one. It starts when the program creates a thread: the interposed pthread_create
// (shim/thread_create.cc) starts it before the new thread; in libraries that interpose nothing, the
// first allocation of the second thread does. A thread that ends and leaves only one other stops
// the helper and waits for its end. Starts are rationed, so that a program that creates and joins
// one thread after another does not pay for a helper each time. After fork the child has none.
// The helper sleeps while no memory is dirty, no part of a huge page may stay unused, and no inbox
// waits for its owner. On a machine with several nodes it visits each node on CPUs of that node
// (platform/affinity.h).
// docs/decisions/0014-helper-thread-and-fork.md
// Invariant: state is running, starting or stopping if and only if the thread exists or is being
// created or joined; purge_signal.present() only if it is running or being created.
// Thread-safety: any thread that is outside (sync/inside.h): starting and joining a thread
// allocates and frees.
#pragma once

#include <pthread.h>

namespace near {

// Sets the function that creates the helper: the C library's pthread_create, also where this
// library interposes that.
using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
void create_helper_by(CreateThread* create);

// Counts one more thread. With `may_start` it starts the helper if that is needed and allowed.
void count_thread(bool may_start);

// Counts one thread less. If fewer than two are left, it ends the helper before it returns.
void discount_thread();

// Applies the option `purge_thread` after a change: ends the helper and waits for its end, or
// starts it if it is needed.
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
