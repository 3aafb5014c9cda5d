/* Frees what must not be freed: argv[1] names the case, argv[2] the size of the block in it.
 * Prints the pointer it frees, frees it, and if it lives on works with the heap and has it
 * checked.
 * Invariant: exit status 0 only if the heap is whole afterwards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Not the compiler's built-in, which would recognize these cases. */
static void (*volatile release)(void* block) = free;

/* A function of the preloaded library, by POSIX's way to turn what dlsym returns into one. */
static void find(const char* name, void* function) {
  *(void**)function = dlsym(RTLD_DEFAULT, name);
  if (*(void**)function == NULL) {
    fprintf(stderr, "there is no %s in this process\n", name);
    exit(2);
  }
}

static char in_data[256] __attribute__((aligned(64)));

static void say(const void* bad, const void* start) {
  printf("%p %p\n", bad, start);
  fflush(stdout);
}

static void free_at(const void* bad, const void* start) {
  say(bad, start);
  release((void*)(uintptr_t)bad);
}

/* Pages of the program's own, between two that cannot be read. */
static char* map_pages(void) {
  const size_t page = 65536;
  char* start = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED || mprotect(start, page, PROT_NONE) != 0 ||
      mprotect(start + 3 * page, page, PROT_NONE) != 0)
    exit(2);
  return start + page;
}

static void free_mapped(size_t offset, int fill) {
  char* start = map_pages();
  memset(start, fill, 2 * 65536);
  free_at(start + offset, start);
}

static void free_unmapped(void) {
  char* start = map_pages();
  munmap(start, 65536);
  free_at(start + 4096, start);
}

static void* free_on_stack(void* unused) {
  (void)unused;
  char on_stack[64] __attribute__((aligned(64))) = {0};
  free_at(on_stack, on_stack);
  return NULL;
}

static void free_on_threads_stack(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_on_stack, NULL) != 0) exit(2);
  pthread_join(thread, NULL);
}

static void free_twice(char* block) {
  say(block, block);
  release(block);
  release(block);
}

/* With other frees of the same size in between. */
static void free_twice_later(char* block, size_t size) {
  char* others[3] = {malloc(size), malloc(size), malloc(size)};
  say(block, block);
  release(block);
  for (int i = 0; i < 3; ++i) release(others[i]);
  release(block);
}

/* The block among others of its size, named twice in one batch: next to itself, or not. */
static void free_twice_at_once(char* block, size_t size, int adjacent) {
  size_t (*free_batch)(void* const*, size_t);
  find("near_free_batch", &free_batch);
  char* others[3] = {malloc(size), malloc(size), malloc(size)};
  void* const batch[] = {others[0], block, adjacent ? block : others[1],
                         adjacent ? others[1] : block, others[2]};
  say(block, block);
  free_batch(batch, 5);
}

/* A pointer into the block, in a batch: the others go, the block stays. */
static void free_interior_at_once(char* block, size_t size) {
  size_t (*free_batch)(void* const*, size_t);
  find("near_free_batch", &free_batch);
  char* bad = block + size / 2 / 16 * 16;
  void* const batch[] = {malloc(size), bad, NULL, malloc(size)};
  say(bad, block);
  free_batch(batch, 4);
}

static int run(const char* what, size_t size) {
  char on_stack[64] __attribute__((aligned(64))) = {0};
  char* block = malloc(size);
  memset(block, 1, size);
  if (strcmp(what, "stack") == 0)
    free_at(on_stack, on_stack);
  else if (strcmp(what, "thread-stack") == 0)
    free_on_threads_stack();
  else if (strcmp(what, "data") == 0)
    free_at(in_data, in_data);
  else if (strcmp(what, "code") == 0)
    free_at((const void*)(uintptr_t)&run, in_data);
  else if (strcmp(what, "wild") == 0)
    free_at((const void*)0xdead0000beef0, in_data);
  else if (strcmp(what, "mapped-start") == 0)
    free_mapped(0, 0);
  else if (strcmp(what, "mapped") == 0)
    free_mapped(4096, 0);
  else if (strcmp(what, "mapped-filled") == 0)
    free_mapped(4096, 'A');
  else if (strcmp(what, "mapped-twos") == 0)
    free_mapped(32768, 2);
  else if (strcmp(what, "unmapped") == 0)
    free_unmapped();
  else if (strcmp(what, "low") == 0)
    free_at((const void*)0x10, in_data);
  else if (strcmp(what, "interior") == 0)
    free_at(block + size / 2 / 16 * 16, block);
  else if (strcmp(what, "unaligned") == 0)
    free_at(block + 1, block);
  else if (strcmp(what, "twice") == 0)
    free_twice(block);
  else if (strcmp(what, "twice-later") == 0)
    free_twice_later(block, size);
  else if (strcmp(what, "batch-twice") == 0)
    free_twice_at_once(block, size, 1);
  else if (strcmp(what, "batch-twice-later") == 0)
    free_twice_at_once(block, size, 0);
  else if (strcmp(what, "batch-interior") == 0)
    free_interior_at_once(block, size);
  else if (strcmp(what, "realloc") == 0) {
    say(block + 16, block);
    block = realloc(block + 16, size * 2);
  } else if (strcmp(what, "sized") == 0) {
    void (*free_sized)(void*, size_t);
    find("free_sized", &free_sized);
    say(block, block);
    free_sized(block, size * 4);
  } else if (strcmp(what, "sized-small") == 0) {
    void (*free_sized)(void*, size_t);
    find("free_sized", &free_sized);
    say(block, block);
    free_sized(block, size / 4);
  } else if (strcmp(what, "sized-delete") == 0) {
    void (*sized_delete)(void*, size_t);
    find("_ZdlPvm", &sized_delete);
    say(block, block);
    sized_delete(block, size / 4);
  } else {
    fprintf(stderr, "no case %s\n", what);
    return 2;
  }
  return 0;
}

/* Blocks of every size, twice: damage done by the bad free shows as an overlap. */
static int is_heap_whole(void) {
  enum { kBlocks = 3000 };
  static unsigned char* blocks[kBlocks];
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kBlocks; ++i) {
      blocks[i] = malloc(i * 7 + 16);
      memset(blocks[i], (int)(i % 251), i * 7 + 16);
    }
    for (size_t i = 0; i < kBlocks; ++i) {
      for (size_t at = 0; at < i * 7 + 16; at += 8) {
        if (blocks[i][at] != i % 251) return 0;
      }
      free(blocks[i]);
    }
  }
  size_t (*check)(void);
  find("near_check", &check);
  return check() == 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int status = run(argv[1], strtoull(argv[2], NULL, 10));
  if (status != 0) return status;
  puts("lives on");
  return is_heap_whole() ? 0 : 1;
}
