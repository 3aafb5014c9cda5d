// The allocator that does least: malloc bumps a pointer, free does nothing.
//
// Until limit_begin() memory is never reused. After it each thread bumps through its own buffer in
// laps: LIMIT_MIB MiB (environment; default 16), populated in advance, so that no page fault is
// measured. A block's memory is therefore reused after one lap of its thread's buffer; a workload
// that holds more, or keeps a block longer, finds its blocks overwritten. That is a result, not a
// fault: the limit does not apply to that workload. Blocks that no buffer can hold are mappings of
// their own, and only these are returned by free.
// It bounds the time of the calls, not of the cache: a lap larger than a real allocator's working
// set costs misses, so LIMIT_MIB should be as small as the workload's live set allows.
//
// Invariants: a block is aligned to 16 bytes, and the 8 bytes before it hold its requested size
// (realloc and malloc_usable_size need it); all blocks except those mappings are in `arena`. A
// buffer belongs to one thread, or to the pool once its thread has ended, and keeps its position.
// Thread-safety: any thread; `pool_lock` guards the pool.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((cold, noinline))

static const size_t kUnit = 16;                       // blocks are aligned to it
static const size_t kReserve = (size_t)1 << 40;       // address space, not memory
static const size_t kEarlyChunk = (size_t)256 << 10;  // a thread's chunk before limit_begin()
static const size_t kPage = 4096;

// The first bytes of a buffer.
struct buffer {
  struct buffer* below;  // in the pool
  char* next;            // the position of its last thread
};

// The 16 bytes before a block that has its own mapping.
struct big_head {
  char* mapping;
  size_t size;
};

static __thread char* next __attribute__((tls_model("initial-exec")));
// Invariant: next <= end; both are NULL while the thread has no memory.
static __thread char* end __attribute__((tls_model("initial-exec")));
static __thread struct buffer* own __attribute__((tls_model("initial-exec")));

static char* arena;
static size_t buffer_size;
static _Atomic size_t arena_used;
static atomic_bool begun;
static struct buffer* pool;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t at_thread_end;
static uintptr_t loader;
static char *kept_next, *kept_end;  // of the loader's chunk; guarded by pool_lock

enum { kHead = 8, kSlack = 96 };  // bytes before a block; more than a buffer's header and a head

static size_t* size_before(void* block) { return (size_t*)block - 1; }
static size_t rounded(size_t size, size_t unit) { return (size + unit - 1) & ~(unit - 1); }
static int in_arena(const void* block) { return (uintptr_t)block - (uintptr_t)arena < kReserve; }

// Makes the next `size` bytes of the arena usable; NULL if memory is refused.
static char* grow_arena(size_t size) {
  const size_t at = atomic_fetch_add_explicit(&arena_used, size, memory_order_relaxed);
  if (at + size > kReserve) return NULL;
  void* const memory = mmap(arena + at, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void bump_in(char* from, char* to) {
  next = from;
  end = to;
}

// The first address in a buffer that leaves room for its header and a block's head, aligned.
static char* first_block(struct buffer* buffer) { return (char*)buffer + 2 * kUnit + kUnit; }

static struct buffer* new_buffer(void) {
  struct buffer* const buffer = (struct buffer*)grow_arena(buffer_size);
  if (buffer != NULL) buffer->next = first_block(buffer);
  return buffer;
}

static void put_into_pool(struct buffer* buffer) {
  pthread_mutex_lock(&pool_lock);
  buffer->below = pool;
  pool = buffer;
  pthread_mutex_unlock(&pool_lock);
}

static struct buffer* take_from_pool(void) {
  pthread_mutex_lock(&pool_lock);
  struct buffer* const buffer = pool;
  if (buffer != NULL) pool = buffer->below;
  pthread_mutex_unlock(&pool_lock);
  return buffer != NULL ? buffer : new_buffer();
}

static void give_buffer_back(void* buffer) {
  own->next = next;
  own = NULL;
  next = end = NULL;
  put_into_pool(buffer);
}

// Reserves the arena before the first block. The loader makes the process's first call.
static void start(void) {
  void* const memory =
      mmap(NULL, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  arena = memory;
  const char* const mib = getenv("LIMIT_MIB");
  const unsigned long wanted = mib == NULL ? 0 : strtoul(mib, NULL, 10);
  loader = getauxval(AT_BASE);
  buffer_size = (wanted == 0 ? 16 : wanted) << 20;
  if (pthread_key_create(&at_thread_end, give_buffer_back) != 0) abort();
}

// Begins the measured region: prepares buffers for `threads` threads.
EXPORT void limit_begin(size_t threads) {
  atomic_store_explicit(&begun, 1, memory_order_relaxed);  // relaxed: threads start after this
  for (; threads > 0; --threads) {
    struct buffer* const buffer = new_buffer();
    if (buffer == NULL) return;
    put_into_pool(buffer);
  }
}

static size_t mapped_length(const char* block, const struct big_head* head) {
  return rounded((size_t)(block - head->mapping) + head->size, kPage);
}

static void* map_block(size_t alignment, size_t size) {
  size_t length;
  if (__builtin_add_overflow(size, sizeof(struct big_head) + alignment + kPage, &length))
    return NULL;
  length = rounded(length - kPage, kPage);
  char* const mapping =
      mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return NULL;
  char* const block = (char*)rounded((uintptr_t)mapping + sizeof(struct big_head), alignment);
  struct big_head* const head = (struct big_head*)block - 1;
  *head = (struct big_head){mapping, size};
  const size_t used = mapped_length(block, head);
  if (used < length) munmap(mapping + used, length - used);
  return block;
}

COLD static void unmap_block(void* block) {
  if (block == NULL) return;
  const struct big_head head = ((struct big_head*)block)[-1];
  munmap(head.mapping, mapped_length(block, &head));
}

// Allocates when there is no room left: by a new lap, from a new chunk, or as a mapping.
COLD static void* allocate_elsewhere(size_t size) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  const int recycles =
      atomic_load_explicit(&begun, memory_order_relaxed);  // relaxed: see the store
  const size_t room = (recycles ? buffer_size : kEarlyChunk) - kSlack;
  void* block = NULL;
  if (size >= room) {
    block = map_block(kUnit, size);
  } else if (!recycles) {
    char* const chunk = grow_arena(kEarlyChunk);
    if (chunk != NULL) bump_in(chunk + kUnit, chunk + kEarlyChunk);
    block = chunk == NULL ? NULL : malloc(size);
  } else if (own != NULL) {
    next = first_block(own);
    block = malloc(size);
  } else if ((own = take_from_pool()) != NULL) {
    bump_in(own->next, (char*)own + buffer_size);
    pthread_setspecific(at_thread_end, own);
    block = malloc(size);
  }
  if (block == NULL) errno = ENOMEM;
  return block;
}

EXPORT void* malloc(size_t size) {
  char* const block = next;
  size_t padded;
  if (__builtin_add_overflow(size, kHead + kUnit - 1, &padded)) return allocate_elsewhere(size);
  const size_t step = padded & ~(kUnit - 1);
  if (step > (size_t)(end - block)) return allocate_elsewhere(size);
  next = block + step;
  *size_before(block) = size;
  return block;
}

EXPORT void free(void* block) {
  if (!in_arena(block)) unmap_block(block);
}

// The dynamic loader's blocks for each thread live much longer than the thread that allocates them.
static int is_loader(void* caller) { return (uintptr_t)caller - loader < ((size_t)1 << 20); }

COLD static void* allocate_for_good(size_t size) {
  const size_t step = rounded(size + kHead, kUnit);
  pthread_mutex_lock(&pool_lock);
  if (step > (size_t)(kept_end - kept_next)) {
    char* const chunk = grow_arena(kEarlyChunk);
    if (chunk != NULL) kept_next = chunk + kUnit, kept_end = chunk + kEarlyChunk;
  }
  char* const block = step <= (size_t)(kept_end - kept_next) ? kept_next : NULL;
  if (block != NULL) {
    kept_next += step;
    *size_before(block) = size;
  }
  pthread_mutex_unlock(&pool_lock);
  return block;
}

EXPORT void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  if (loader != 0 && bytes < kEarlyChunk / 2 && is_loader(__builtin_return_address(0)))
    return allocate_for_good(bytes);
  void* const block = malloc(bytes);
  return block != NULL && in_arena(block) ? memset(block, 0, bytes) : block;
}

EXPORT size_t malloc_usable_size(void* block) { return block == NULL ? 0 : *size_before(block); }

static void* remap_block(char* block, size_t size) {
  const struct big_head head = ((struct big_head*)block)[-1];
  const struct big_head wanted = {head.mapping, size};
  char* const moved = mremap(head.mapping, mapped_length(block, &head),
                             mapped_length(block, &wanted), MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) return NULL;
  char* const now = moved + (block - head.mapping);
  ((struct big_head*)now)[-1] = (struct big_head){moved, size};
  return now;
}

// Grows or shrinks the thread's last block in place, if there is room.
static int resize_last(char* block, size_t before, size_t size) {
  if (block + rounded(before + kHead, kUnit) != next || size > buffer_size) return 0;
  const size_t step = rounded(size + kHead, kUnit);
  if (step > (size_t)(end - block)) return 0;
  next = block + step;
  *size_before(block) = size;
  return 1;
}

EXPORT void* realloc(void* block, size_t size) {
  if (block == NULL) return malloc(size);
  if (!in_arena(block) && size >= buffer_size) return remap_block(block, size);
  const size_t before = *size_before(block);
  if (in_arena(block) && resize_last(block, before, size)) return block;
  void* const moved = malloc(size);
  if (moved == NULL) return NULL;
  memmove(moved, block, before < size ? before : size);
  free(block);
  return moved;
}

EXPORT void* memalign(size_t alignment, size_t size) {
  if (alignment <= kUnit) return malloc(size);
  size_t with_gap;
  if (__builtin_add_overflow(size, alignment, &with_gap)) {
    errno = ENOMEM;
    return NULL;
  }
  char* const block = malloc(with_gap);
  if (block == NULL) return NULL;
  if (!in_arena(block)) {
    unmap_block(block);
    return map_block(alignment, size);
  }
  char* const aligned = (char*)rounded((uintptr_t)block, alignment);
  *size_before(aligned) = size;
  return aligned;
}

EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
EXPORT void* valloc(size_t size) { return memalign(kPage, size); }
EXPORT void* pvalloc(size_t size) { return memalign(kPage, rounded(size, kPage)); }

EXPORT int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int before = errno;
  void* const aligned = memalign(alignment, size);
  errno = before;
  if (aligned == NULL) return ENOMEM;
  *block = aligned;
  return 0;
}
