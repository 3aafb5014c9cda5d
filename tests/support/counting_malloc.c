/* Counts the calls of the malloc family that reach the allocator preloaded behind it.
 * The counts lie, by executable, in the file that NEAR_COUNT_FILE names, which all processes of a
 * run map: what a process counted outlives its exec, its _exit and its death by a signal.
 * Invariant: each call goes on to the next definition of its name, once, with its arguments.
 * Thread-safety: any thread of any process may use it; tests/programs knows the file's layout. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <nearmalloc/nearmalloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPrograms = 256, kPathRoom = 208 };
enum { kUnused, kClaimed, kNamed };

struct Program {
  char path[kPathRoom];
  _Atomic uint64_t state;
  _Atomic uint64_t allocated; /* malloc, calloc, operator new, aligned forms */
  _Atomic uint64_t resized;
  _Atomic uint64_t freed;  /* of blocks; free(NULL) is not counted */
  _Atomic uint64_t ours;   /* processes in which the next malloc is nearmalloc's */
  _Atomic uint64_t others; /* processes in which it is not */
};

static struct Program unmapped; /* counts into nothing until, or unless, the file is mapped */
static struct Program* _Atomic mine = &unmapped;

static int claims(struct Program* entry, const char* path) {
  uint64_t state = kUnused;
  if (atomic_compare_exchange_strong(&entry->state, &state, kClaimed)) {
    strcpy(entry->path, path);
    atomic_store(&entry->state, kNamed);
    return 1;
  }
  /* Bounded: the process that names it may have been killed meanwhile. */
  for (int i = 0; i < 1000 && atomic_load(&entry->state) == kClaimed; ++i) usleep(100);
  return strcmp(entry->path, path) == 0;
}

static struct Program* map_programs(void) {
  const char* name = getenv("NEAR_COUNT_FILE");
  const int file = name != NULL ? open(name, O_RDWR | O_CLOEXEC) : -1;
  void* map = MAP_FAILED;
  if (file >= 0) {
    map =
        mmap(NULL, kPrograms * sizeof(struct Program), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
  }
  return map == MAP_FAILED ? NULL : map;
}

static int is_ours(void) {
  Dl_info next;
  Dl_info near;
  void* version = dlsym(RTLD_DEFAULT, "near_version");
  void* block = dlsym(RTLD_NEXT, "malloc");
  return version != NULL && dladdr(version, &near) != 0 && dladdr(block, &next) != 0 &&
         near.dli_fbase == next.dli_fbase;
}

/* Effect: this process counts under the name of its executable. */
__attribute__((constructor)) static void start(void) {
  static atomic_flag started = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&started)) return;
  const int saved = errno;
  struct Program* programs = map_programs();
  char path[kPathRoom];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  for (int i = 0; programs != NULL && i < kPrograms; ++i) {
    if (!claims(&programs[i], path)) continue;
    atomic_fetch_add(is_ours() ? &programs[i].ours : &programs[i].others, 1);
    atomic_fetch_add(&programs[i].allocated, atomic_load(&unmapped.allocated));
    atomic_fetch_add(&programs[i].resized, atomic_load(&unmapped.resized));
    atomic_fetch_add(&programs[i].freed, atomic_load(&unmapped.freed));
    atomic_store(&mine, &programs[i]);
    break;
  }
  errno = saved;
}

/* How deep the calling thread is in calls that are counted: operator new[] may come back as
 * operator new, and that as malloc, which is one call all the same. */
static __thread int depth __attribute__((tls_model("initial-exec")));

static void leave(const int* outer) { depth = *outer; }

#define COUNT(field, is_call)                                                               \
  __attribute__((cleanup(leave))) const int outer = depth++;                                \
  if (outer == 0 && (is_call)) {                                                            \
    atomic_fetch_add_explicit(&atomic_load_explicit(&mine, memory_order_relaxed)->field, 1, \
                              memory_order_relaxed);                                        \
  }

/* What is forwarded: the name, what it counts, its type, and its operands' types. Those that the
 * resolution of the others can need come first. The long names are operator new and delete, as the
 * linker knows them: plain, array; nothrow; aligned; sized. */
#define FORWARDED(CALL, RELEASE)                                                             \
  CALL(void*, malloc, allocated, (size_t size), (size))                                      \
  RELEASE(free, (void* block), (block))                                                      \
  CALL(void*, calloc, allocated, (size_t count, size_t size), (count, size))                 \
  CALL(void*, realloc, resized, (void* block, size_t size), (block, size))                   \
  CALL(void*, reallocarray, resized, (void* block, size_t count, size_t size),               \
       (block, count, size))                                                                 \
  CALL(void*, aligned_alloc, allocated, (size_t alignment, size_t size), (alignment, size))  \
  CALL(void*, memalign, allocated, (size_t alignment, size_t size), (alignment, size))       \
  CALL(void*, valloc, allocated, (size_t size), (size))                                      \
  CALL(void*, pvalloc, allocated, (size_t size), (size))                                     \
  CALL(int, posix_memalign, allocated, (void** out, size_t alignment, size_t size),          \
       (out, alignment, size))                                                               \
  CALL(void*, mallocx, allocated, (size_t size, int flags), (size, flags))                   \
  CALL(void*, rallocx, resized, (void* block, size_t size, int flags), (block, size, flags)) \
  RELEASE(dallocx, (void* block, int flags), (block, flags))                                 \
  RELEASE(sdallocx, (void* block, size_t size, int flags), (block, size, flags))             \
  CALL(void*, _Znwm, allocated, (size_t size), (size))                                       \
  CALL(void*, _Znam, allocated, (size_t size), (size))                                       \
  CALL(void*, _ZnwmRKSt9nothrow_t, allocated, (size_t size, const void* tag), (size, tag))   \
  CALL(void*, _ZnamRKSt9nothrow_t, allocated, (size_t size, const void* tag), (size, tag))   \
  CALL(void*, _ZnwmSt11align_val_t, allocated, (size_t size, size_t to), (size, to))         \
  CALL(void*, _ZnamSt11align_val_t, allocated, (size_t size, size_t to), (size, to))         \
  CALL(void*, _ZnwmSt11align_val_tRKSt9nothrow_t, allocated,                                 \
       (size_t size, size_t to, const void* tag), (size, to, tag))                           \
  CALL(void*, _ZnamSt11align_val_tRKSt9nothrow_t, allocated,                                 \
       (size_t size, size_t to, const void* tag), (size, to, tag))                           \
  RELEASE(_ZdlPv, (void* block), (block))                                                    \
  RELEASE(_ZdaPv, (void* block), (block))                                                    \
  RELEASE(_ZdlPvm, (void* block, size_t size), (block, size))                                \
  RELEASE(_ZdaPvm, (void* block, size_t size), (block, size))                                \
  RELEASE(_ZdlPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))                \
  RELEASE(_ZdaPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))                \
  RELEASE(_ZdlPvSt11align_val_t, (void* block, size_t to), (block, to))                      \
  RELEASE(_ZdaPvSt11align_val_t, (void* block, size_t to), (block, to))                      \
  RELEASE(_ZdlPvmSt11align_val_t, (void* block, size_t size, size_t to), (block, size, to))  \
  RELEASE(_ZdaPvmSt11align_val_t, (void* block, size_t size, size_t to), (block, size, to))

#define INDEX_CALL(type, name, field, parameters, operands) k_##name,
#define INDEX_RELEASE(name, parameters, operands) k_##name,
enum { FORWARDED(INDEX_CALL, INDEX_RELEASE) kNames };

#define NAME_CALL(type, name, field, parameters, operands) #name,
#define NAME_RELEASE(name, parameters, operands) #name,
static const char* const names[] = {FORWARDED(NAME_CALL, NAME_RELEASE)};

typedef void Function(void);
static Function* _Atomic known[kNames];

static Function* look_up(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  Function* function;
  memcpy(&function, &found, sizeof function);
  return function;
}

/* The next definition of a name. All are looked up at the first call: a later one may come from
 * inside dlsym, which frees the message of its last failure. */
static Function* next(int index) {
  Function* function = atomic_load_explicit(&known[index], memory_order_relaxed);
  if (function != NULL) return function;
  for (int i = 0; i < kNames; ++i) {
    if (atomic_load(&known[i]) == NULL) atomic_store(&known[i], look_up(names[i]));
  }
  function = atomic_load(&known[index]);
  if (function == NULL) abort();
  return function;
}

#define DEFINE_CALL(type, name, field, parameters, operands) \
  type name parameters;                                      \
  type name parameters {                                     \
    COUNT(field, 1)                                          \
    return ((type(*) parameters)next(k_##name))operands;     \
  }
#define DEFINE_RELEASE(name, parameters, operands) \
  void name parameters;                            \
  void name parameters {                           \
    COUNT(freed, block != NULL)                    \
    ((void(*) parameters)next(k_##name)) operands; \
  }
FORWARDED(DEFINE_CALL, DEFINE_RELEASE)
