/* Loads a library with near_* names when handlers of fork are registered that use it: they run
 * while the library's own handler has its locks. argv[1]: the library.
 * Invariant: every child ends with status 0; prints "ok". */
#include <dlfcn.h>
#include <sys/wait.h>

#include "common.h"

static void* (*take_block)(size_t size);
static void (*give_block)(void* block);
static int handled;

static void use_library(void) {
  if (take_block == NULL) return;
  for (size_t size = 1; size < 300000; size += size / 2 + 1) {
    char* block = take_block(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    give_block(block);
  }
  handled++;
}

static void* fork_from_here(void* unused) {
  for (int i = 0; i < 5; ++i) {
    const int before = handled;
    const pid_t child = fork();
    CHECK(child >= 0);
    CHECK(handled == before + 2);
    if (child == 0) {
      alarm(20);
      use_library();
      _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    use_library();
  }
  return unused;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  alarm(60);
  pthread_atfork(use_library, use_library, use_library);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  *(void**)&give_block = dlsym(library, "near_free");
  *(void**)&take_block = dlsym(library, "near_malloc");
  CHECK(take_block != NULL && give_block != NULL);
  fork_from_here(NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, fork_from_here, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  puts("ok");
  return 0;
}
