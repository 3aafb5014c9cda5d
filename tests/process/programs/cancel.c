/* What the allocator says and does is no cancellation point: a thread that is to be cancelled comes
 * back from it. argv[1]: a library with near_* names to load.
 * Invariant: prints "ok". */
#include <dlfcn.h>
#include <malloc.h>

#include "tasks.h"

static const char* library;
static pthread_barrier_t cancelled;

static void free_what_is_no_block(void) {
  char* block = (char*)malloc(100);
  free(block + 16); /* NEARMALLOC_INVALID=report */
}

static void say_how_it_stands(void) { malloc_stats(); }

/* The start of the library reads files of the system. */
static void load_a_library(void) { CHECK(dlopen(library, RTLD_NOW) != NULL); }

/* Waits for the end of a thread. */
static void switch_the_helper_off(void) {
  int (*set_option)(const char* name, long value) = NULL;
  *(void**)&set_option = dlsym(RTLD_DEFAULT, "near_set_option");
  if (set_option == NULL) return;
  for (int value = 0; value < 2; ++value) CHECK(set_option("purge_thread", value) == 0);
}

static void allocate(void) { churn(1, 300); }

struct Call {
  void (*run)(void);
  bool came_back;
};

static void* run_cancelled(void* argument) {
  struct Call* call = argument;
  pthread_barrier_wait(&cancelled);
  call->run();
  call->came_back = true;
  pthread_testcancel();
  return NULL;
}

static void check(const char* name, void (*run)(void)) {
  struct Call call = {run, false};
  pthread_t thread;
  CHECK(pthread_barrier_init(&cancelled, NULL, 2) == 0);
  CHECK(pthread_create(&thread, NULL, run_cancelled, &call) == 0);
  CHECK(pthread_cancel(thread) == 0);
  pthread_barrier_wait(&cancelled);
  void* result = NULL;
  CHECK(pthread_join(thread, &result) == 0);
  if (!call.came_back || result != PTHREAD_CANCELED) printf("%s was cancelled\n", name);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  library = argv[1];
  check("malloc", allocate);
  check("free", free_what_is_no_block);
  check("malloc_stats", say_how_it_stands);
  check("dlopen", load_a_library);
  check("near_set_option", switch_the_helper_off);
  puts("ok");
  return 0;
}
