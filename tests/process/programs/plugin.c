/* A plugin linked to libnearmalloc-api.so: hands out blocks of it and takes them back.
 * Thread-safety: the program that loads it. */
#include <nearmalloc/nearmalloc.h>
#include <string.h>

void* plugin_take(size_t size);
void plugin_give_back(void* block);

void* plugin_take(size_t size) {
  void* block = near_malloc(size);
  if (block != NULL) memset(block, (int)(size % 251), size);
  return block;
}

void plugin_give_back(void* block) { near_free(block); }
