/* How many mappings the allocator makes, and how malloc works when the process has all that the
 * system allows: argv[1] names the case.
 * Invariant: after threads have left every second chunk of 2 MiB free, three quarters of the
 * mappings are still the program's. Where the program has taken all, malloc serves small blocks
 * from mapped memory, and threads and libraries work again once some mappings are joined. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "common.h"

#define MIB ((size_t)1 << 20)

enum { kThreads = 8, kHalfChunk = 1000 << 10, kPage = 4096 };

static pthread_barrier_t barrier;
static int blocks_of_a_thread;

static long lines_of(const char* path) {
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  long lines = 0;
  for (int c; (c = getc(file)) != EOF;) lines += c == '\n';
  fclose(file);
  return lines;
}

static long most_mappings(void) {
  FILE* file = fopen("/proc/sys/vm/max_map_count", "r");
  long most = 0;
  CHECK(file != NULL && fscanf(file, "%ld", &most) == 1);
  fclose(file);
  return most;
}

static void* nothing(void* argument) { return argument; }

static void expect_room(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  void* mapped = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mapped != MAP_FAILED && munmap(mapped, 2 * kPage) == 0);
  void* library = dlopen("libm.so.6", RTLD_NOW);
  CHECK(library != NULL && dlclose(library) == 0);
  give_back(take(50 * MIB), 50 * MIB);
}

struct Link {
  struct Link* next;
};

/* A list of blocks of `least` to twice as many bytes, of `bytes` in all. */
static struct Link* take_list(size_t bytes, size_t least) {
  struct Link* blocks = NULL;
  uint64_t seed = 1;
  for (size_t used = 0; used < bytes;) {
    const size_t size = least + next_random(&seed) % least;
    struct Link* block = malloc(size);
    CHECK(block != NULL);
    block->next = blocks;
    blocks = block;
    used += size;
  }
  return blocks;
}

static void give_list_back(struct Link* blocks) {
  while (blocks != NULL) {
    struct Link* next = blocks->next;
    free(blocks);
    blocks = next;
  }
}

static void use_small_blocks(size_t bytes) { give_list_back(take_list(bytes, 500)); }

/* Two such blocks fill a chunk. Three of four are given back. */
static void* leave_holes(void* argument) {
  char** blocks = calloc((size_t)blocks_of_a_thread, sizeof *blocks);
  CHECK(blocks != NULL);
  for (int i = 0; i < blocks_of_a_thread; i++) {
    blocks[i] = malloc(kHalfChunk);
    CHECK(blocks[i] != NULL);
    if (i % 8 == 0) blocks[i][0] = 1;
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < blocks_of_a_thread; i++) {
    if (i % 4 != 0) free(blocks[i]);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < blocks_of_a_thread; i += 4) free(blocks[i]);
  free(blocks);
  return argument;
}

/* Chunks enough for more holes than a quarter of the mappings. The pages of each chunk are chosen,
 * but without huge ones, whose memory the case would take. */
static void in_shards(void) {
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  const long most = most_mappings();
  const long before = lines_of("/proc/self/maps");
  blocks_of_a_thread = (int)(most * 3 / 8 * 4 / kThreads);
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&barrier, NULL, kThreads + 1) == 0);
  for (int i = 0; i < kThreads; i++) {
    CHECK(pthread_create(&threads[i], NULL, leave_holes, NULL) == 0);
  }
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  malloc_trim(0);
  const long made = lines_of("/proc/self/maps") - before;
  fprintf(stderr, "%ld mappings of %ld\n", made, most);
  CHECK(made <= most / 4 + 3 * kThreads); /* threads have stacks */
  CHECK(made >= most / 8);                /* else the case has made too few holes */
  expect_room();
  use_small_blocks(50 * MIB);
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(lines_of("/proc/self/maps") - before <= most / 4);
}

/* Maps until the process may have no mapping more. */
static char* take_all_mappings(size_t bytes) {
  char* start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(start != MAP_FAILED);
  for (size_t at = 0; at < bytes; at += (size_t)2 * kPage) {
    if (mprotect(start + at, kPage, PROT_READ) != 0) break;
  }
  while (mmap(NULL, kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
  }
  return start;
}

static void at_the_limit(void) {
  const size_t bytes = (size_t)most_mappings() * 2 * kPage;
  struct Link* kept[40];
  struct Link* freed[40];
  for (int i = 0; i < 40; i++) {
    kept[i] = take_list(MIB / 2, 300);
    freed[i] = take_list(3 * MIB / 2, 700);
  }
  for (int i = 0; i < 40; i++) give_list_back(freed[i]);
  char* taken = take_all_mappings(bytes);
  CHECK(mmap(NULL, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  for (size_t least = 16; least <= 512; least *= 2) give_list_back(take_list(30 * MIB, least));
  errno = 0;
  CHECK(malloc((size_t)1 << 30) == NULL && errno == ENOMEM);
  CHECK(mprotect(taken, (size_t)200 * kPage, PROT_READ) == 0); /* joins some mappings */
  expect_room();
  use_small_blocks(200 * MIB);
  for (int i = 0; i < 40; i++) give_list_back(kept[i]);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (strcmp(argv[1], "shards") == 0) {
    in_shards();
  } else {
    at_the_limit();
  }
  return 0;
}
