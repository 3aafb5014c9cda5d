// What the programs of this folder share. They are linked in every way there is, also where
// GoogleTest is not: to each C++ runtime, statically, as plugins of C programs.
// Invariant: a program prints `cases: N` and ends with 0, or names the line that failed and ends
// with 1. Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

inline int cases = 0;

#define CHECK(condition)                                                   \
  do {                                                                     \
    cases++;                                                               \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

// More memory than there is; the compiler does not know the value.
inline std::size_t impossible() {
  static volatile std::size_t size = std::size_t{PTRDIFF_MAX} - 4096;
  return size;
}
