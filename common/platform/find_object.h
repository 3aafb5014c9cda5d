// Whether the C library has _dl_find_object, which takes no lock and searches a sorted table: glibc
// from 2.35 on. A program may still run on an older one: test the address of the function.
#pragma once

#include <dlfcn.h>

#if defined(__GLIBC_PREREQ) && __GLIBC_PREREQ(2, 35)
#pragma weak _dl_find_object
#define NEAR_HAS_FIND_OBJECT 1
#else
#define NEAR_HAS_FIND_OBJECT 0
#endif
