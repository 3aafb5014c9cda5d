/* Loads, uses and unloads a plugin that brings the allocator as an archive: threads that used it
 * end after that, its own thread goes on, and the process forks. argv[1]: the plugin.
 * Invariant: prints "ok", and blocks stay valid. */
#include <dlfcn.h>
#include <sys/wait.h>

#include "tasks.h"

struct Use {
  void* (*take)(size_t size);
  void (*give_back)(void* block);
  pthread_barrier_t gate;
};

static void* use_and_outlive(void* argument) {
  struct Use* use = argument;
  use->give_back(use->take(1000));
  pthread_barrier_wait(&use->gate);
  pthread_barrier_wait(&use->gate);
  return NULL;
}

static void load_and_unload(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  struct Use use;
  *(void**)&use.take = dlsym(plugin, "plugin_take");
  *(void**)&use.give_back = dlsym(plugin, "plugin_give_back");
  CHECK(use.take != NULL && use.give_back != NULL);
  unsigned char* block = use.take(5000);
  pthread_barrier_init(&use.gate, NULL, 2);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_and_outlive, &use) == 0);
  pthread_barrier_wait(&use.gate);
  CHECK(dlclose(plugin) == 0);
  sleep_ms(250); /* its helper works meanwhile */
  pthread_barrier_wait(&use.gate);
  CHECK(pthread_join(thread, NULL) == 0);
  for (int i = 0; i < 5000; ++i) CHECK(block[i] == 5000 % 251);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  for (int i = 0; i < 3; ++i) load_and_unload(argv[1]);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(settled_thread_count(1) == 1);
  puts("ok");
  return 0;
}
