/* A plugin that allocates and frees by the standard names: of the allocator that the loader gives
 * it. Thread-safety: the program that loads it. */
#include <stdlib.h>
#include <string.h>

void* plugin_take(size_t size);
void plugin_give_back(void* block);

void* plugin_take(size_t size) {
  void* block = malloc(size);
  if (block != NULL) memset(block, (int)(size % 251), size);
  return block;
}

void plugin_give_back(void* block) { free(block); }
