/* Asks for jemalloc in the ways of folly, RocksDB, Redis and Arrow, and prints the answers.
 * Thread-safety: one thread. */
#include "common.h"
#include "support/jemalloc_functions.h"

static int number_of_functions(void) {
  return (mallocx != NULL) + (rallocx != NULL) + (xallocx != NULL) + (sallocx != NULL) +
         (dallocx != NULL) + (sdallocx != NULL) + (nallocx != NULL) + (mallctl != NULL) +
         (mallctlnametomib != NULL) + (mallctlbymib != NULL) + (malloc_stats_print != NULL);
}

/* As folly: jemalloc serves malloc if a counter of the thread moves. */
static void folly(void) {
  uint64_t* counter = NULL;
  size_t length = sizeof counter;
  const int error = mallctl("thread.allocatedp", &counter, &length, NULL, 0);
  printf("folly: thread.allocatedp %s\n", strerror(error));
}

/* As RocksDB: an arena, hooks for the arena, and a cache for each thread. */
static void rocksdb(void) {
  unsigned arena = 0;
  size_t length = sizeof arena;
  CHECK(mallctl("arenas.create", &arena, &length, NULL, 0) == 0);
  char name[64];
  void* hooks = NULL;
  size_t hooks_length = sizeof hooks;
  snprintf(name, sizeof name, "arena.%u.extent_hooks", arena);
  printf("rocksdb: arena %u, hooks %s\n", arena,
         strerror(mallctl(name, &hooks, &hooks_length, NULL, 0)));
  unsigned cache = 0;
  CHECK(mallctl("tcache.create", &cache, &length, NULL, 0) == 0);
  const int flags = (int)((arena + 1) << 20 | (cache + 2) << 8);
  void* block = mallocx(5000, flags);
  CHECK(malloc_usable_size(block) >= 5000);
  dallocx(block, flags & 0xfffff);
  CHECK(mallctl("tcache.destroy", NULL, 0, &cache, sizeof cache) == 0);
  snprintf(name, sizeof name, "arena.%u.destroy", arena);
  CHECK(mallctl(name, NULL, 0, NULL, 0) == 0);
}

/* As Arrow: aligned buffers that grow, times, and numbers. */
static void arrow(void) {
  char* buffer = mallocx(1000, 6);
  memset(buffer, 5, 1000);
  for (size_t size = 2000; size < 3000000; size += size / 2) {
    buffer = rallocx(buffer, size, 6);
    CHECK((uintptr_t)buffer % 64 == 0 && buffer[999] == 5);
    if (size > 2000000) sdallocx(buffer, size, 6), size = 3000000;
  }
  ssize_t time = 1000;
  CHECK(mallctl("arenas.dirty_decay_ms", NULL, NULL, &time, sizeof time) == 0);
  CHECK(mallctl("arenas.muzzy_decay_ms", NULL, NULL, &time, sizeof time) == 0);
  CHECK(mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0);
  for (const char* const* name =
           (const char* const[]){"allocated", "active", "metadata", "resident", "mapped", NULL};
       *name != NULL; name++) {
    char full[64];
    uint64_t value = 0;
    uint64_t epoch = 1;
    size_t length = sizeof value;
    CHECK(mallctl("epoch", &epoch, &length, &epoch, length) == 0);
    snprintf(full, sizeof full, "stats.%s", *name);
    CHECK(mallctl(full, &value, &length, NULL, 0) == 0);
    CHECK(value > 0 && value < UINT64_C(1) << 30);
  }
  puts("arrow: done");
}

/* As Redis 8: the free blocks of all classes. */
static void redis(void) {
  unsigned bins = 0;
  size_t length = sizeof bins;
  CHECK(mallctl("arenas.nbins", &bins, &length, NULL, 0) == 0);
  size_t lost = 0;
  for (unsigned i = 0; i < bins; i++) {
    char name[64];
    size_t live = 0, slabs = 0, size = 0;
    uint32_t regions = 0;
    length = sizeof size;
    snprintf(name, sizeof name, "arenas.bin.%u.size", i);
    CHECK(mallctl(name, &size, &length, NULL, 0) == 0);
    snprintf(name, sizeof name, "stats.arenas.4096.bins.%u.curregs", i);
    CHECK(mallctl(name, &live, &length, NULL, 0) == 0);
    snprintf(name, sizeof name, "stats.arenas.4096.bins.%u.curslabs", i);
    CHECK(mallctl(name, &slabs, &length, NULL, 0) == 0);
    length = sizeof regions;
    snprintf(name, sizeof name, "arenas.bin.%u.nregs", i);
    CHECK(mallctl(name, &regions, &length, NULL, 0) == 0);
    CHECK(regions * slabs >= live);
    lost += (regions * slabs - live) * size;
  }
  CHECK(lost < 100u << 20);
  puts("redis: done");
}

int main(void) {
  printf("functions: %d\n", number_of_functions());
  if (number_of_functions() < 11) return 0;
  churn(1, 20000);
  folly();
  rocksdb();
  arrow();
  redis();
  return 0;
}
