// Included before everything else in the engine: the compiler's own copies must not be simulated,
// so the three functions have other names here (runtime/copies.cc).
#pragma once

#include <stddef.h>

extern "C" {
void* memcpy(void* to, const void* from, size_t bytes) noexcept asm("near_manycore_memcpy");
void* memmove(void* to, const void* from, size_t bytes) noexcept asm("near_manycore_memmove");
void* memset(void* to, int value, size_t bytes) noexcept asm("near_manycore_memset");
}
