/* What the C programs of the process tests share: patterned blocks, and a failure that says
 * where.
 * Invariant: a program prints its result on standard output and exits 0, or dies in CHECK.
 * Thread-safety: any thread; nothing here has state. */
#ifndef NEAR_TESTS_PROCESS_PROGRAMS_COMMON_H
#define NEAR_TESTS_PROCESS_PROGRAMS_COMMON_H

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      abort();                                                                          \
    }                                                                                   \
  } while (0)

static inline uint64_t next_random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* A block whose bytes are a function of its size. */
static inline unsigned char* take(size_t size) {
  unsigned char* block = (unsigned char*)malloc(size);
  CHECK(block != NULL);
  memset(block, (int)(size % 251), size);
  return block;
}

static inline void give_back(unsigned char* block, size_t size) {
  for (size_t i = 0; i < size; i += size / 16 + 1) CHECK(block[i] == size % 251);
  CHECK(size == 0 || block[size - 1] == size % 251);
  free(block);
}

/* `rounds` of replacing one of 200 blocks by one of another size; all are given back. */
static inline void churn(uint64_t seed, int rounds) {
  unsigned char* blocks[200] = {0};
  size_t sizes[200] = {0};
  for (int i = 0; i < rounds; ++i) {
    const size_t slot = next_random(&seed) % 200;
    if (blocks[slot] != NULL) give_back(blocks[slot], sizes[slot]);
    sizes[slot] = next_random(&seed) % (i % 100 == 0 ? 300000 : 2000);
    blocks[slot] = take(sizes[slot]);
  }
  for (int i = 0; i < 200; ++i) {
    if (blocks[i] != NULL) give_back(blocks[i], sizes[i]);
  }
}

#endif
