/* Opens a plugin with RTLD_DEEPBIND and exchanges blocks with it, both ways: argv[1] is the plugin,
 * argv[2] the case. Where the flag is in force the plugin has the C library's malloc, and its
 * blocks are foreign to the program's.
 * Invariant: every block is whole until it is freed, by the allocator that it belongs to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ucontext.h>

#include "common.h"

typedef void* (*Take)(size_t size);
typedef void (*Give)(void* block);

static Take plugin_take;
static Give plugin_give_back;

/* POSIX's way to turn what dlsym returns into a function. */
static void find(void* library, const char* name, void* function) {
  *(void**)function = dlsym(library, name);
  CHECK(*(void**)function != NULL);
}

static void open_plugin(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (plugin == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(plugin != NULL);
  find(plugin, "plugin_take", &plugin_take);
  find(plugin, "plugin_give_back", &plugin_give_back);
}

static const size_t kSizes[] = {1, 100, 5000, 200000, 3000000};
enum { kSizeCount = sizeof kSizes / sizeof *kSizes };

/* The plugin's blocks are measured, resized and freed by the program. */
static void take_from_plugin(void) {
  for (size_t i = 0; i < kSizeCount; ++i) {
    const size_t size = kSizes[i];
    unsigned char* block = plugin_take(size);
    CHECK(block != NULL && malloc_usable_size(block) >= size);
    CHECK(malloc_usable_size(block) < size + 70000);
    block = realloc(block, size * 2);
    CHECK(block != NULL && malloc_usable_size(block) >= size * 2);
    for (size_t at = 0; at < size; at += size / 16 + 1) CHECK(block[at] == size % 251);
    free(block);
  }
}

static void give_to_plugin(void) {
  for (size_t i = 0; i < kSizeCount; ++i) plugin_give_back(take(kSizes[i]));
}

static void* free_it(void* block) {
  free(block);
  return NULL;
}

enum { kStackSize = 4 << 20, kBlockSize = 3 << 20, kNear = 16 << 20, kTries = 20 };

/* Finds two of the plugin's blocks, the first above the second and near it. */
static int find_neighbours(char** upper, char** stack) {
  char* before = plugin_take(kBlockSize);
  for (int i = 0; i < kTries; ++i) {
    char* block = plugin_take(kStackSize);
    CHECK(before != NULL && block != NULL);
    if (before > block && before - block < kNear - kStackSize) {
      *upper = before;
      *stack = block;
      return 1;
    }
    before = block;
  }
  return 0;
}

static void free_from_stack_below(void) {
  char* block;
  char* stack;
  if (!find_neighbours(&block, &stack)) {
    puts("skipped: no block lies above another");
    return;
  }
  pthread_attr_t attributes;
  pthread_t thread;
  char* start = stack + (4096 - (uintptr_t)stack % 4096);
  CHECK(pthread_attr_init(&attributes) == 0);
  CHECK(pthread_attr_setstack(&attributes, start, kStackSize / 2) == 0);
  CHECK(pthread_create(&thread, &attributes, free_it, block) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(pthread_attr_destroy(&attributes) == 0);
  puts("freed");
}

static char* coroutine_block;
static ucontext_t coroutine;
static ucontext_t back;

static void free_in_coroutine(void) { free(coroutine_block); }

static void free_from_coroutine_below(void) {
  char* stack;
  if (!find_neighbours(&coroutine_block, &stack)) {
    puts("skipped: no block lies above another");
    return;
  }
  CHECK(getcontext(&coroutine) == 0);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = kStackSize;
  coroutine.uc_link = &back;
  makecontext(&coroutine, free_in_coroutine, 0);
  CHECK(swapcontext(&back, &coroutine) == 0);
  puts("freed");
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  open_plugin(argv[1]);
  if (strcmp(argv[2], "exchange") == 0) {
    take_from_plugin();
    give_to_plugin();
    puts("both ways");
  } else if (strcmp(argv[2], "take") == 0) {
    take_from_plugin();
    puts("one way");
  } else if (strcmp(argv[2], "thread") == 0) {
    free_from_stack_below();
  } else if (strcmp(argv[2], "coroutine") == 0) {
    free_from_coroutine_below();
  } else {
    void* (*open_beside)(int mode);
    void* opener = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(opener != NULL);
    CHECK(dlopen("libbeside.so", RTLD_NOW) == NULL); /* the program itself does not find it */
    find(opener, "open_beside", &open_beside);
    CHECK(open_beside(RTLD_NOW | RTLD_LOCAL) != NULL);
    CHECK(open_beside(RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) != NULL);
    puts("found by the caller's RUNPATH");
  }
  return 0;
}
