/* A program in C, without a C++ runtime: opens each plugin that it is given, as path=function, with
 * RTLD_LOCAL, and calls the function with its round. All stay open.
 * Invariant: prints the sum of the cases. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  int cases = 0;
  for (int i = 1; i < argc; ++i) {
    char* name = strchr(argv[i], '=');
    if (name == NULL) return 2;
    *name++ = '\0';
    void* plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    int (*run)(int round) = NULL;
    if (plugin != NULL) *(void**)&run = dlsym(plugin, name); /* POSIX's way to turn it into one */
    if (run == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    cases += run(i);
  }
  printf("cases: %d\n", cases);
  return 0;
}
