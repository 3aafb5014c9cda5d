/* Arrays that grow by realloc keep their bytes, in whatever steps, with neighbours and threads:
 * argv[1] is the number of threads; "peak" measures the resident memory of arrays in turns.
 * Invariant: byte i of an array is a function of the array and of i. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "common.h"

#define MIB ((size_t)1 << 20)

struct Array {
  unsigned char* bytes;
  size_t size;
  unsigned seed;
};

static unsigned char byte_at(const struct Array* array, size_t at) {
  return (unsigned char)((at * 2654435761u >> 12) + array->seed);
}

/* Writes the bytes from `from` on: all near the ends and at each step of 4093. */
static void write_from(struct Array* array, size_t from) {
  for (size_t i = from; i < array->size;
       i += i < from + 70 || i + 700 > array->size ? 1 : (size_t)4093) {
    array->bytes[i] = byte_at(array, i);
  }
}

/* The bytes of write_from. */
static void check_from(const struct Array* array, size_t from, size_t end) {
  for (size_t i = from; i < end; i += i < from + 70 || i + 700 > end ? 1 : (size_t)4093) {
    CHECK(array->bytes[i] == byte_at(array, i));
  }
}

enum { kMostEnds = 200 };

struct History {
  struct Array array;
  size_t ends[kMostEnds];
  int count;
};

static void check_all(const struct History* history) {
  size_t from = 0;
  for (int i = 0; i < history->count; i++) {
    check_from(&history->array, from, history->ends[i]);
    from = history->ends[i];
  }
}

static void grow(struct History* history, size_t size) {
  struct Array* array = &history->array;
  const size_t before = array->size;
  CHECK(history->count < kMostEnds && size > before);
  array->bytes = realloc(array->bytes, size);
  CHECK(array->bytes != NULL && malloc_usable_size(array->bytes) >= size);
  array->size = size;
  check_all(history);
  write_from(array, before);
  history->ends[history->count++] = size;
}

static void shrink(struct History* history, size_t size) {
  history->array.bytes = realloc(history->array.bytes, size);
  CHECK(history->array.bytes != NULL);
  while (history->count > 0 && history->ends[history->count - 1] > size) history->count--;
  history->array.size = history->count == 0 ? 0 : history->ends[history->count - 1];
  check_all(history);
}

static void end(struct History* history) {
  check_all(history);
  free(history->array.bytes);
  memset(history, 0, sizeof *history);
}

/* To the sizes around a MiB, a chunk and several chunks, a byte less and a byte more. */
static void at_edges(unsigned seed) {
  static const size_t kEdges[] = {64 << 10, 1 << 20, 2 << 20, 3 << 20, 4 << 20, 7 << 20, 20 << 20};
  for (size_t i = 0; i < sizeof kEdges / sizeof *kEdges; i++) {
    for (size_t j = i; j < i + 2 && j < sizeof kEdges / sizeof *kEdges; j++) {
      for (int by = -1; by <= 1; by++) {
        struct History history = {{NULL, 0, seed + (unsigned)j}, {0}, 0};
        grow(&history, kEdges[i] + (size_t)by);
        void* neighbour = malloc(kEdges[i] / 2);
        grow(&history, kEdges[j] + (size_t)by + 1);
        grow(&history, kEdges[j] + 4097);
        grow(&history, kEdges[j] * 3 + 4098);
        shrink(&history, kEdges[j] + 100);
        grow(&history, kEdges[j] * 2 + (2 << 20));
        end(&history);
        free(neighbour);
      }
    }
  }
}

static void in_turns(unsigned seed) {
  enum { kArrays = 12 };
  static __thread struct History histories[kArrays];
  uint64_t random = seed;
  for (int i = 0; i < kArrays; i++) histories[i].array.seed = seed + (unsigned)i;
  for (int step = 0; step < 120; step++) {
    struct History* history = &histories[next_random(&random) % kArrays];
    const size_t size = history->array.size;
    if (size > 40 * MIB || history->count == kMostEnds) {
      end(history);
    } else if (next_random(&random) % 16 == 0) {
      shrink(history, 1 + size / 2);
    } else {
      const size_t most = next_random(&random) % 3 == 0 ? size + 1 : MIB;
      grow(history, size + 1 + next_random(&random) % most);
    }
    if (step % 10 == 0) churn(random, 20);
  }
  for (int i = 0; i < kArrays; i++) end(&histories[i]);
}

static void* live(void* argument) {
  const unsigned seed = *(unsigned*)argument;
  in_turns(seed);
  if (seed == 1) at_edges(seed);
  return NULL;
}

static long resident_kib(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss;
}

/* Sixteen arrays grow in turns by a MiB. */
static void peak(void) {
  enum { kArrays = 16, kSteps = 24 };
  char* arrays[kArrays] = {0};
  const long before = resident_kib();
  for (size_t step = 1; step <= kSteps; step++) {
    for (int i = 0; i < kArrays; i++) {
      arrays[i] = realloc(arrays[i], step * MIB);
      CHECK(arrays[i] != NULL);
      memset(arrays[i] + (step - 1) * MIB, i + 1, MIB);
    }
  }
  for (int i = 0; i < kArrays; i++) {
    for (size_t at = 0; at < kSteps * MIB; at += 4095) CHECK(arrays[i][at] == i + 1);
    free(arrays[i]);
  }
  printf("%ld\n", (resident_kib() - before) * 100 / (kArrays * kSteps * 1024));
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (strcmp(argv[1], "peak") == 0) {
    peak();
    return 0;
  }
  enum { kMost = 8 };
  pthread_t threads[kMost];
  unsigned seeds[kMost];
  const int count = atoi(argv[1]);
  for (int i = 0; i < count; i++) {
    seeds[i] = (unsigned)i + 1;
    CHECK(pthread_create(&threads[i], NULL, live, &seeds[i]) == 0);
  }
  for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  return 0;
}
