// A process that only calls malloc and free once, to measure an allocator's fixed cost.
// Prints its memory, or nothing when an argument is given (see start_up.cc).
#define _GNU_SOURCE
#include <stdio.h>

#include "own_memory.h"

int main(int argc, char** argv) {
  (void)argv;
  void* volatile block = malloc(1);
  free(block);
  if (argc > 1) return 0;
  const struct memory_use memory = own_memory();
  char line[512];  // written without printf, which would allocate its buffer by malloc
  const int length = snprintf(line, sizeof line,
                              "{\"name\": \"idle\", \"malloc_from\": \"%s\", \"rss_kib\": %ld, "
                              "\"vm_hwm_kib\": %ld, \"vm_pte_kib\": %ld}\n",
                              malloc_from(), memory.rss_kib, memory.hwm_kib, memory.pte_kib);
  return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
