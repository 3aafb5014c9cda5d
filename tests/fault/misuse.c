/* What docs/misuse.md lists: argv[1] names the case, argv[2] the size of its blocks.
 * Says when the mistake is made, goes on with the heap, and says how many blocks it got twice.
 * Invariant: except for the mistake the program is correct, and it ends by itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kWarm = 40, kFew = 9, kLater = 3000, kLarge = 1 << 20 };

/* Not the compiler's built-ins, which would recognize these cases. */
static void* (*volatile allocate)(size_t size) = malloc;
static void (*volatile release)(void* block) = free;
static void* (*volatile resize)(void* block, size_t size) = realloc;

static size_t size;
static char in_data[64] __attribute__((aligned(64)));

static void* release_in_thread(void* block) {
  release(block);
  return NULL;
}

/* Frees the block as another thread. */
static void release_apart(void* block) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, release_in_thread, block) != 0) exit(2);
  pthread_join(thread, NULL);
}

static char* make(void) { return memset(allocate(size), 1, size); }

/* Allocates what the mistake may have put into the free lists, and fills it if asked to. */
static void go_on(int fill) {
  static void* blocks[kLater];
  size_t twice = 0;
  for (size_t i = 0; i < kLater; ++i) {
    blocks[i] = allocate(size);
    if (fill) memset(blocks[i], (int)(i % 251 + 1), size);
    for (size_t before = 0; before < i && twice == 0; ++before)
      twice += blocks[i] == blocks[before];
  }
  printf("%s\n", twice == 0 ? "lives on" : "got a block twice");
  size_t (*check)(void);
  *(void**)&check = dlsym(RTLD_DEFAULT, "near_check");
  if (check != NULL) printf("%zu faults\n", check());
}

/* --- the mistakes; each returns whether the program fills what it allocates afterwards --- */

static int twice(void) {
  char* block = make();
  release(block);
  release(block);
  return 1;
}

static void free_twice_at_a_distance(void) {
  char* few[kFew];
  for (int i = 0; i < kFew; ++i) few[i] = make();
  for (int i = 0; i < kFew; ++i) release(few[i]);
  release(few[0]);
}

static int twice_later(void) {
  free_twice_at_a_distance();
  return 0;
}

static int twice_later_filled(void) {
  free_twice_at_a_distance();
  return 1;
}

static int twice_by_two_threads(void) {
  char* block = make();
  make(); /* The span stays: pthread_create does not get its memory. */
  release(block);
  release_apart(block);
  return 0;
}

static int twice_by_another_thread(void) {
  char* block = make();
  char* other = make();
  release_apart(block);
  release_apart(other);
  release_apart(block);
  return 0;
}

static int twice_in_a_row_by_another_thread(void) {
  char* block = make();
  release_apart(block);
  release_apart(block);
  return 0;
}

static int remote_then_local(void) {
  char* block = make();
  release_apart(block);
  release(block);
  return 0;
}

static int twice_after_reuse(void) {
  char* block = make();
  release(block);
  char* again = make();
  release(block); /* which is `again` by now */
  return again == NULL;
}

static int large_twice(void) {
  char* block = allocate(kLarge);
  release(block);
  release(block);
  return 1;
}

static int large_twice_after_reuse(void) {
  char* block = allocate(kLarge);
  release(block);
  char* again = allocate(kLarge);
  release(block);
  return again != NULL;
}

static int interior(void) {
  release(make() + 16);
  return 1;
}

static int unaligned(void) {
  release(make() + 8);
  return 1;
}

static int large_interior(void) {
  release((char*)allocate(kLarge) + 65536);
  return 1;
}

static int stack(void) {
  char on_stack[64] __attribute__((aligned(64))) = {1};
  release(on_stack);
  return 1;
}

static int data(void) {
  release(in_data);
  return 1;
}

static int code(void) {
  release((void*)(uintptr_t)&code);
  return 1;
}

static int wild(void) {
  release((void*)0x123456789000);
  return 1;
}

static int mapped(void) {
  char* pages = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) exit(2);
  release(pages + 4096);
  return 1;
}

/* The block behind the newest one: it was carved, and never handed out. */
static int never_allocated(void) {
  char* block = make();
  release(block + malloc_usable_size(block));
  return 1;
}

/* Two blocks, the second of which follows the first in memory. */
static void make_neighbours(char** first, char** second) {
  char* before = make();
  for (int i = 0; i < kLater; ++i) {
    char* block = make();
    if (block == before + malloc_usable_size(before)) {
      *first = before;
      *second = block;
      return;
    }
    before = block;
  }
  exit(2);
}

static int past_the_end_into_a_live_block(void) {
  char* block;
  char* behind;
  make_neighbours(&block, &behind);
  memset(block, 'A', malloc_usable_size(block) + 16);
  return 1;
}

static int past_the_end_into_a_free_block(void) {
  char* block;
  char* behind;
  make_neighbours(&block, &behind);
  release(behind);
  memset(block, 'A', malloc_usable_size(block) + 16);
  return 1;
}

static int written_after_free(void) {
  char* block = make();
  release(block);
  *(void* volatile*)block = in_data;
  return 1;
}

static int zeroed_after_free(void) {
  char* block = make();
  release(block);
  memset(block, 0, size);
  return 1;
}

static int a_bit_changed_after_free(void) {
  char* block = make();
  release(block);
  *(volatile char*)block ^= 16;
  return 1;
}

/* The link then looks like the end of a list. */
static int the_lowest_bit_changed_after_free(void) {
  char* block = make();
  char* other = make();
  release(block);
  release(other);
  *(volatile char*)other ^= 1;
  return 1;
}

static int the_lowest_bit_changed_after_remote_frees(void) {
  char* block = make();
  char* other = make();
  release_apart(block);
  release_apart(other);
  *(volatile char*)block ^= 1;
  return 1;
}

/* Damages bytes after the first eight. */
static int written_behind_the_link(void) {
  char* block = make();
  release(block);
  memset(block + 8, 'A', size - 8);
  return 1;
}

static int written_after_a_remote_free(void) {
  char* block = make();
  char* other = make();
  release_apart(block);
  release_apart(other);
  *(void* volatile*)other = in_data;
  return 1;
}

/* Whoever reads the link of a free block knows the key, and can put a block into a free list that
 * the program holds. */
static int forged_link(void) {
  char* first;
  char* second;
  char* live;
  int tries = 0;
  do { /* two of one span, and one that their links can reach */
    if (++tries == kLater) exit(2);
    live = make();
    first = make();
    second = make();
  } while ((((uintptr_t)first ^ (uintptr_t)second) >> 17) != 0 ||
           (((uintptr_t)first ^ (uintptr_t)live) >> 21) != 0);
  release(first);
  release(second);
  uintptr_t key = *(volatile uintptr_t*)second ^ (uintptr_t)first ^ (uintptr_t)second;
  *(volatile uintptr_t*)live = key ^ (uintptr_t)live ^ (uintptr_t)first;
  *(volatile uintptr_t*)second = key ^ (uintptr_t)second ^ (uintptr_t)live;
  return 0;
}

static int deleted_with_a_wrong_size(void) {
  void (*sized_delete)(void*, size_t);
  *(void**)&sized_delete = dlsym(RTLD_DEFAULT, "_ZdlPvm");
  if (sized_delete == NULL) exit(2);
  sized_delete(make(), size / 4);
  return 1;
}

static int realloc_after_free(void) {
  char* block = make();
  release(block);
  resize(block, 3 * size);
  return 1;
}

static int realloc_in_place_after_free(void) {
  char* block = make();
  release(block);
  resize(block, size);
  return 1;
}

static int realloc_of_a_large_one_after_free(void) {
  char* block = allocate(kLarge);
  release(block);
  resize(block, 2 * kLarge);
  return 1;
}

static int realloc_of_interior(void) {
  resize(make() + 16, 3 * size);
  return 1;
}

static const struct {
  const char* name;
  int (*make)(void);
} kMistakes[] = {
    {"twice", twice},
    {"twice-later", twice_later},
    {"twice-later-filled", twice_later_filled},
    {"twice-by-two-threads", twice_by_two_threads},
    {"twice-by-another-thread", twice_by_another_thread},
    {"twice-in-a-row-by-another-thread", twice_in_a_row_by_another_thread},
    {"remote-then-local", remote_then_local},
    {"twice-after-reuse", twice_after_reuse},
    {"large-twice", large_twice},
    {"large-twice-after-reuse", large_twice_after_reuse},
    {"interior", interior},
    {"unaligned", unaligned},
    {"large-interior", large_interior},
    {"stack", stack},
    {"data", data},
    {"code", code},
    {"wild", wild},
    {"mapped", mapped},
    {"never-allocated", never_allocated},
    {"past-end-live", past_the_end_into_a_live_block},
    {"past-end-free", past_the_end_into_a_free_block},
    {"write-after-free", written_after_free},
    {"zero-after-free", zeroed_after_free},
    {"bit-after-free", a_bit_changed_after_free},
    {"end-after-free", the_lowest_bit_changed_after_free},
    {"end-after-remote-free", the_lowest_bit_changed_after_remote_frees},
    {"write-behind-link", written_behind_the_link},
    {"write-after-remote-free", written_after_a_remote_free},
    {"forged-link", forged_link},
    {"sized-delete", deleted_with_a_wrong_size},
    {"realloc-after-free", realloc_after_free},
    {"realloc-in-place-after-free", realloc_in_place_after_free},
    {"realloc-large-after-free", realloc_of_a_large_one_after_free},
    {"realloc-interior", realloc_of_interior},
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  size = strtoull(argv[2], NULL, 10);
  for (int i = 0; i < kWarm; ++i) make();
  setvbuf(stdout, NULL, _IONBF, 0);
  for (size_t i = 0; i < sizeof kMistakes / sizeof *kMistakes; ++i) {
    if (strcmp(argv[1], kMistakes[i].name) != 0) continue;
    const int fill = kMistakes[i].make();
    puts("mistake made");
    go_on(fill);
    return 0;
  }
  fprintf(stderr, "no case %s\n", argv[1]);
  return 2;
}
