// The functions of the C library that the shared libraries call, for shim/libc.cc.
//
// Invariant: a library calls a function of the C library only if it is listed here or in
// shim/interposable.list; tests/link/link.py compares both lists with what the linker made.
#pragma once

#define NEAR_LIBC_NAMES(X)     \
  X(_IO_list_lock)             \
  X(_IO_list_resetlock)        \
  X(_IO_list_unlock)           \
  X(__cxa_atexit)              \
  X(__cxa_finalize)            \
  X(__errno_location)          \
  X(__getauxval)               \
  X(__register_atfork)         \
  X(abort)                     \
  X(clock_gettime)             \
  X(dl_iterate_phdr)           \
  X(dladdr)                    \
  X(dladdr1)                   \
  X(dlsym)                     \
  X(ferror)                    \
  X(fflush)                    \
  X(fprintf)                   \
  X(fputs)                     \
  X(fwrite)                    \
  X(getauxval)                 \
  X(getpid)                    \
  X(getrlimit)                 \
  X(isupper)                   \
  X(madvise)                   \
  X(memcpy)                    \
  X(memmove)                   \
  X(memset)                    \
  X(mmap)                      \
  X(mprotect)                  \
  X(munmap)                    \
  X(prctl)                     \
  X(pthread_attr_destroy)      \
  X(pthread_attr_getstack)     \
  X(pthread_attr_init)         \
  X(pthread_attr_setstacksize) \
  X(pthread_getattr_np)        \
  X(pthread_join)              \
  X(pthread_key_create)        \
  X(pthread_key_delete)        \
  X(pthread_self)              \
  X(pthread_setcancelstate)    \
  X(pthread_setspecific)       \
  X(pthread_sigmask)           \
  X(readlink)                  \
  X(sched_getaffinity)         \
  X(sched_getcpu)              \
  X(sched_getscheduler)        \
  X(sched_setaffinity)         \
  X(sched_setscheduler)        \
  X(sched_yield)               \
  X(sigaction)                 \
  X(sigfillset)                \
  X(snprintf)                  \
  X(strchr)                    \
  X(strchrnul)                 \
  X(strcmp)                    \
  X(strcspn)                   \
  X(strlen)                    \
  X(strncmp)                   \
  X(strnlen)                   \
  X(strrchr)                   \
  X(strspn)                    \
  X(strstr)                    \
  X(strtoull)                  \
  X(syscall)                   \
  X(sysconf)                   \
  X(sysinfo)                   \
  X(vsnprintf)
