// libc_pthread_create where other objects are to interpose the C library: simulated processors.
// Thread-safety: any thread.
#include <dlfcn.h>

#include "base/compiler.h"
#include "shim/libc.h"

int libc_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                        void* (*routine)(void*), void* argument) {
  static const auto next =
      reinterpret_cast<decltype(&libc_pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, routine, argument);
}
