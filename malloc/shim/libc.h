// The C library's own pthread_create, whatever else in the process has that name.
// Thread-safety: any thread.
#pragma once

#include <pthread.h>

#include "base/compiler.h"

extern "C" NEAR_HIDDEN int libc_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                               void* (*routine)(void*), void* argument);
