// A simple allocator, as a user might bring it: free lists of powers of two behind one lock.
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { kClasses = 40, kHeader = 16, kChunk = 1 << 20 };

struct Block {
  size_t class;
  struct Block* next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Block* freed[kClasses];
static char* rest;
static size_t left;

static size_t class_of(size_t bytes) {
  size_t class = 5;
  while (((size_t)1 << class) < bytes + kHeader) ++class;
  return class;
}

static void* fresh(size_t bytes) {
  if (bytes > left) {
    left = bytes > kChunk ? bytes : kChunk;
    rest = mmap(NULL, left, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rest == MAP_FAILED) return NULL;
  }
  char* const made = rest;
  rest += bytes;
  left -= bytes;
  return made;
}

void* malloc(size_t bytes) {
  const size_t class = class_of(bytes);
  if (class >= kClasses) return NULL;
  pthread_mutex_lock(&lock);
  struct Block* block = freed[class];
  if (block != NULL) {
    freed[class] = block->next;
  } else {
    block = fresh((size_t)1 << class);
  }
  pthread_mutex_unlock(&lock);
  if (block == NULL) return NULL;
  block->class = class;
  return (char*)block + kHeader;
}

void free(void* address) {
  if (address == NULL) return;
  struct Block* const block = (struct Block*)((char*)address - kHeader);
  pthread_mutex_lock(&lock);
  block->next = freed[block->class];
  freed[block->class] = block;
  pthread_mutex_unlock(&lock);
}

void* calloc(size_t count, size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return NULL;
  void* const made = malloc(count * bytes);
  return made == NULL ? NULL : memset(made, 0, count * bytes);
}

void* realloc(void* address, size_t bytes) {
  if (address == NULL) return malloc(bytes);
  struct Block* const block = (struct Block*)((char*)address - kHeader);
  const size_t room = ((size_t)1 << block->class) - kHeader;
  if (bytes <= room) return address;
  void* const made = malloc(bytes);
  if (made != NULL) memcpy(made, address, room);
  free(address);
  return made;
}
