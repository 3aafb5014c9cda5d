/* The functions of jemalloc for C and C++, null in a process without them. Programs recognise
 * jemalloc by such declarations.
 * Thread-safety: any thread. */
#pragma once

#include <stddef.h>

#define NEAR_TEST_WEAK __attribute__((weak))

#ifdef __cplusplus
extern "C" {
#endif
int mallctl(const char*, void*, size_t*, void*, size_t) NEAR_TEST_WEAK;
int mallctlnametomib(const char*, size_t*, size_t*) NEAR_TEST_WEAK;
int mallctlbymib(const size_t*, size_t, void*, size_t*, void*, size_t) NEAR_TEST_WEAK;
void malloc_stats_print(void (*)(void*, const char*), void*, const char*) NEAR_TEST_WEAK;
void* mallocx(size_t, int) NEAR_TEST_WEAK;
void* rallocx(void*, size_t, int) NEAR_TEST_WEAK;
size_t xallocx(void*, size_t, size_t, int) NEAR_TEST_WEAK;
size_t sallocx(const void*, int) NEAR_TEST_WEAK;
void dallocx(void*, int) NEAR_TEST_WEAK;
void sdallocx(void*, size_t, int) NEAR_TEST_WEAK;
size_t nallocx(size_t, int) NEAR_TEST_WEAK;
#ifdef __cplusplus
}
#endif
