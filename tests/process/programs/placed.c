/* Prints where this process got a small block, where the descriptors of its allocator are, and the
 * key of its links, as nearmalloc.h's near_layout says. */
#include <dlfcn.h>
#include <nearmalloc/nearmalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct near_layout* layout;

static const struct near_layout_entry* entry(const char* name) {
  for (int i = 0; i < NEAR_LAYOUT_ENTRIES; ++i) {
    if (strncmp(layout->entries[i].name, name, sizeof layout->entries[i].name) == 0)
      return &layout->entries[i];
  }
  fprintf(stderr, "near_layout has no %s\n", name);
  exit(2);
}

static const char* member(const void* object, const char* name) {
  return (const char*)object + entry(name)->number;
}

static const void* pointer(const void* object, const char* name) {
  const void* value = NULL;
  memcpy(&value, member(object, name), sizeof value);
  return value;
}

int main(void) {
  layout = dlsym(RTLD_DEFAULT, "near_layout");
  if (layout == NULL) {
    fprintf(stderr, "nearmalloc is not loaded\n");
    return 2;
  }
  void* block = malloc(64);
  const void* shard = member(entry("nodes")->address, "node.first");
  const void* region = pointer(shard, "shard.regions");
  const void* spans = pointer(region, "region.spans");
  const uintptr_t key = *(const uintptr_t*)entry("link_key")->address;
  printf("%zx %zx %zx\n", (size_t)(uintptr_t)block, (size_t)(uintptr_t)spans, (size_t)key);
  free(block);
  return 0;
}
