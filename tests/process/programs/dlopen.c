/* Loads and unloads libraries a hundred times: argv[1] a library with near_* names, argv[2] a
 * plugin that is linked to one. Threads that used them outlive the unloading.
 * Invariant: blocks stay valid after dlclose, and the libraries' thread-exit hooks never run
 * into unmapped code. */
#include <dlfcn.h>

#include "common.h"

enum { kRounds = 100, kSize = 3000 };

typedef void* (*Take)(size_t size);
typedef void (*Give)(void* block);

static void* open_or_die(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

/* POSIX's way to turn what dlsym returns into a function. */
static void find(void* library, const char* name, void* function) {
  *(void**)function = dlsym(library, name);
  CHECK(*(void**)function != NULL);
}

struct Use {
  Take take;
  Give give;
  pthread_barrier_t* closed;
};

static void* use_in_thread(void* argument) {
  struct Use* use = argument;
  unsigned char* block = use->take(kSize);
  CHECK(block != NULL);
  use->give(block);
  pthread_barrier_wait(use->closed);
  pthread_barrier_wait(use->closed);
  return NULL;
}

static void use_once(const char* path, const char* take_name, const char* give_name, int round) {
  void* library = open_or_die(path);
  pthread_barrier_t closed;
  CHECK(pthread_barrier_init(&closed, NULL, 2) == 0);
  struct Use use = {.closed = &closed};
  find(library, take_name, &use.take);
  find(library, give_name, &use.give);
  unsigned char* block = use.take(kSize);
  CHECK(block != NULL);
  memset(block, round, kSize);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_in_thread, &use) == 0);
  pthread_barrier_wait(&closed);
  use.give(use.take((size_t)round * 100));
  CHECK(dlclose(library) == 0);
  pthread_barrier_wait(&closed);
  pthread_join(thread, NULL);
  for (int i = 0; i < kSize; ++i) CHECK(block[i] == (unsigned char)round);
  library = open_or_die(path);
  find(library, give_name, &use.give);
  use.give(block);
  CHECK(dlclose(library) == 0);
  pthread_barrier_destroy(&closed);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  for (int round = 0; round < kRounds; ++round) {
    use_once(argv[1], "near_malloc", "near_free", round);
    use_once(argv[2], "plugin_take", "plugin_give_back", round);
    churn((uint64_t)round, 50);
  }
  printf("%d rounds\n", kRounds);
  return 0;
}
