// Calls malloc and free in a fixed loop; callgrind counts them (nearlab/measure/instructions.py).
// pair: free right after malloc. batch: 1,000 allocated, then all freed in the same order.
// With `empty`, the same loop calls functions of this program that return at once. The difference
// of the two counts is the allocator and the jump to it through the procedure linkage table.
// Invariant: both loops are the same machine code except the called address.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "empty.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { kBatch = 1000 };

typedef void* (*Take)(size_t);
typedef void (*Give)(void*);

ALWAYS_INLINE void pairs(Take take, Give give, size_t size, long rounds) {
  for (long i = 0; i < rounds; ++i) give(take(size));
}

ALWAYS_INLINE void batches(Take take, Give give, size_t size, long rounds) {
  static void* held[kBatch];
  for (long i = 0; i < rounds; ++i) {
    for (int n = 0; n < kBatch; ++n) held[n] = take(size);
    for (int n = 0; n < kBatch; ++n) give(held[n]);
  }
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: instructions pair|batch SIZE ROUNDS malloc|empty\n");
    return 2;
  }
  const int batch = strcmp(argv[1], "batch") == 0;
  const size_t size = strtoul(argv[2], NULL, 10);
  const long rounds = strtol(argv[3], NULL, 10);
  const int empty = strcmp(argv[4], "empty") == 0;
  if (batch && empty) batches(empty_malloc, empty_free, size, rounds);
  if (batch && !empty) batches(malloc, free, size, rounds);
  if (!batch && empty) pairs(empty_malloc, empty_free, size, rounds);
  if (!batch && !empty) pairs(malloc, free, size, rounds);
  return 0;
}
