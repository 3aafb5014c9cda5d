// Prints the version and which blocks are nearmalloc's. With an argument it then waits for the end
// of its input, so that tools find it running.
#include <nearmalloc/nearmalloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  (void)argv;
  void* twin = near_malloc(9);
  void* standard = malloc(9);
  printf("%s %d %d\n", near_version(), near_owns(twin), near_owns(standard));
  fflush(stdout);
  if (argc > 1) getchar();
  near_free(twin);
  free(standard);
  return 0;
}
