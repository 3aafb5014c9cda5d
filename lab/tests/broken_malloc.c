// An allocator with deliberate faults, to show that the workloads detect them.
//
// BROKEN (environment) selects the fault. `twice`: now and then the program gets a block that it
// holds already. `short`: now and then a block is shorter than was requested, so that its tail and
// the next block overlap. Only blocks that the program itself allocates are faulty, one in
// BROKEN_EVERY (default 5), while it holds another; those of the libraries are sound, so that the
// workload's stamps find the fault and not a crash of the C++ runtime.
//
// Invariants: no memory is reused once freed (a block freed twice therefore causes no crash), and
// behind each of the program's blocks there is room for another of its size.
// Thread-safety: any thread, under `lock`. The lab's tests compile and preload it.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kUnit = 16, kHeld = 64 };
static const size_t kArena = (size_t)1 << 38;  // address space, not memory

struct block {
  char* address;
  size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards all that follows
static char* next;
static struct block held[kHeld];  // some of the program's live blocks
static unsigned long requests, every;
static int is_short;
static uintptr_t program_start, program_end;

static size_t rounded(size_t size) { return (size + kUnit - 1) / kUnit * kUnit; }

// The first object is the program.
static int note_program(struct dl_phdr_info* object, size_t size, void* unused) {
  (void)size, (void)unused;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &object->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    program_start = object->dlpi_addr + part->p_vaddr;
    program_end = program_start + part->p_memsz;
  }
  return 1;
}

__attribute__((constructor)) static void start(void) {
  const char* const kind = getenv("BROKEN");
  const char* const number = getenv("BROKEN_EVERY");
  is_short = kind != NULL && strcmp(kind, "short") == 0;
  every = number == NULL ? 5 : strtoul(number, NULL, 10);
  dl_iterate_phdr(note_program, NULL);
}

static char* bump(size_t size) {
  if (next == NULL) {
    next = mmap(NULL, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  }
  char* const block = next;
  next += rounded(size + 1);
  return block;
}

// A place in a held block where another block of `size` bytes overlaps it; NULL without one.
static char* overlapping(size_t size) {
  for (int i = 0; i < kHeld; ++i) {
    if (held[i].address == NULL || held[i].size < size || size == 0) continue;
    return held[i].address + (is_short ? (held[i].size - 1) / kUnit * kUnit : 0);
  }
  return NULL;
}

static char* for_program(size_t size) {
  char* block = ++requests % every == 0 ? overlapping(size) : NULL;
  if (block != NULL) return block;
  block = bump(2 * size);
  for (int i = 0; i < kHeld; ++i) {
    if (held[i].address != NULL) continue;
    held[i] = (struct block){block, size};
    break;
  }
  return block;
}

static void* allocate(size_t size, void* caller) {
  const uintptr_t from = (uintptr_t)caller;
  pthread_mutex_lock(&lock);
  void* const block = program_start <= from && from < program_end ? for_program(size) : bump(size);
  pthread_mutex_unlock(&lock);
  return block;
}

void* malloc(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* calloc(size_t count, size_t size) { return malloc(count * size); }

void free(void* address) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < kHeld; ++i) {
    if (held[i].address == address) held[i].address = NULL;
  }
  pthread_mutex_unlock(&lock);
}

// The old block's size is unknown; the memory behind it can be read, and copying it does no harm.
void* realloc(void* address, size_t size) {
  void* const moved = allocate(size, __builtin_return_address(0));
  if (address != NULL) memmove(moved, address, size);
  free(address);
  return moved;
}
