// A library preloaded before an allocator: it counts the calls of the malloc family and the bytes
// requested, and estimates the time inside by timing about one call in 64.
//
// Invariant: every call is passed to the next definition, unchanged; a call that an allocator makes
// inside another call is passed on and not counted. The counters are a shared mapping of the file
// LAB_COUNT_FILE, which the reader made: a crash or _exit loses no count, and children of fork and
// exec add to the same counters. Without that file nothing is counted.
// Thread-safety: any thread. The reader is nearlab/measure/counting.py, which uses this layout.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum kind { kMalloc, kCalloc, kRealloc, kAligned, kFree, kFreeNull, kKinds };
enum { kSlots = 16, kSampledEvery = 64, kClockTries = 64 };

// Threads take slots in turn, so that even many threads rarely contend for a counter.
struct slot {
  _Alignas(128) _Atomic uint64_t calls[kKinds];
  _Atomic uint64_t bytes;
  _Atomic uint64_t samples;
  _Atomic uint64_t sampled_ns;
  _Atomic uint64_t processes;  // processes that opened the file
};

static struct slot nowhere[kSlots];
static struct slot* slots = nowhere;
static uint64_t clock_cost;

static void* (*next_malloc)(size_t);
static void* (*next_calloc)(size_t, size_t);
static void* (*next_realloc)(void*, size_t);
static void (*next_free)(void*);
static void* (*next_reallocarray)(void*, size_t, size_t);
static int (*next_posix_memalign)(void**, size_t, size_t);
static void* (*next_aligned_alloc)(size_t, size_t);
static void* (*next_memalign)(size_t, size_t);
static void* (*next_valloc)(size_t);
static void* (*next_pvalloc)(size_t);

struct thread {
  int depth;  // calls of the family that this thread is in
  int until_sample;
  uint32_t random;
  struct slot* slot;
};
static __thread struct thread self __attribute__((tls_model("initial-exec")));

// --- before the next definitions are known -------------------------------------------------------

// dlsym may allocate. Its blocks come from here and are never freed.
static _Alignas(16) char early[16384];
static atomic_size_t early_used;

static bool is_early(const void* block) {
  return (const char*)block >= early && (const char*)block < early + sizeof early;
}

static void* early_malloc(size_t size) {
  if (size > sizeof early) return NULL;
  const size_t at = atomic_fetch_add(&early_used, (size + 15) / 16 * 16);
  return at + size <= sizeof early ? early + at : NULL;
}

// Sets the function pointer at `place`, to NULL if there is no such function.
static void find_next(void* place, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  memcpy(place, &found, sizeof found);
}

static uint64_t now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t cost_of_clock(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kClockTries; ++i) {
    const uint64_t start = now(CLOCK_MONOTONIC);
    const uint64_t took = now(CLOCK_MONOTONIC) - start;
    if (took < least) least = took;
  }
  return least;
}

static void find_file(void) {
  const char* path = getenv("LAB_COUNT_FILE");
  const int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status;
  if (fstat(fd, &status) == 0 && (size_t)status.st_size == sizeof nowhere) {
    void* mapped = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) slots = mapped;
  }
  close(fd);
  atomic_fetch_add(&slots[0].processes, 1);
}

static void find_family(void) {
  find_next(&next_malloc, "malloc");
  find_next(&next_calloc, "calloc");
  find_next(&next_realloc, "realloc");
  find_next(&next_free, "free");
  find_next(&next_reallocarray, "reallocarray");
  find_next(&next_posix_memalign, "posix_memalign");
  find_next(&next_aligned_alloc, "aligned_alloc");
  find_next(&next_memalign, "memalign");
  find_next(&next_valloc, "valloc");
  find_next(&next_pvalloc, "pvalloc");
}

// False while the process's first call looks for the next definitions.
static bool ready(void) {
  enum { kFresh, kLooking, kReady };
  static atomic_int state;
  if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == kReady, 1))
    return true;
  int expected = kFresh;
  if (!atomic_compare_exchange_strong(&state, &expected, kLooking)) return expected == kReady;
  const int saved = errno;
  find_family();
  find_file();
  clock_cost = cost_of_clock();
  errno = saved;
  atomic_store_explicit(&state, kReady, memory_order_release);
  return true;
}

// A program that never allocates is a counted process too, with 0 calls.
__attribute__((constructor)) static void start(void) { ready(); }

// --- one call ------------------------------------------------------------------------------------

struct call {
  bool sampled;
  uint64_t cpu, start;
};

static void add(_Atomic uint64_t* counter, uint64_t value) {
  atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

// A random distance, 64 on average, so that a program's own period does not bias the samples.
static int draw_distance(void) {
  self.random ^= self.random << 13;
  self.random ^= self.random >> 17;
  self.random ^= self.random << 5;
  return 1 + (int)(self.random % (2 * kSampledEvery - 1));
}

static void meet_thread(void) {
  static atomic_uint threads;
  const unsigned number = atomic_fetch_add(&threads, 1);
  self.slot = &slots[number % kSlots];
  self.random = 2463534242u + number;
  self.until_sample = draw_distance();
}

static struct call begin(enum kind kind, size_t bytes) {
  struct call call = {0};
  if (self.depth++ > 0) return call;
  if (self.slot == NULL) meet_thread();
  add(&self.slot->calls[kind], 1);
  if (bytes > 0) add(&self.slot->bytes, bytes);
  if (--self.until_sample > 0) return call;
  self.until_sample = draw_distance();
  call.sampled = true;
  call.cpu = now(CLOCK_THREAD_CPUTIME_ID);
  call.start = now(CLOCK_MONOTONIC);
  return call;
}

// Records the smaller of two times: the monotonic clock is more precise, and the CPU clock stops
// while the thread does not run. An exception of operator new calls this too.
static void end(const struct call* call) {
  --self.depth;
  if (!call->sampled) return;
  const uint64_t wall = now(CLOCK_MONOTONIC) - call->start;
  const uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID) - call->cpu;
  const uint64_t took = wall < cpu ? wall : cpu;
  add(&self.slot->samples, 1);
  add(&self.slot->sampled_ns, took > clock_cost ? took - clock_cost : 0);
}

#define COUNTED(kind, bytes) \
  __attribute__((cleanup(end), unused)) const struct call call = begin(kind, bytes)

// --- C -------------------------------------------------------------------------------------------

void* malloc(size_t size) {
  if (!ready()) return early_malloc(size);
  COUNTED(kMalloc, size);
  return next_malloc(size);
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  const bool overflow = __builtin_mul_overflow(count, size, &bytes);
  if (!ready()) return overflow ? NULL : early_malloc(bytes);
  COUNTED(kCalloc, overflow ? 0 : bytes);
  return next_calloc(count, size);
}

void free(void* block) {
  if (is_early(block) || !ready()) return;
  COUNTED(block == NULL ? kFreeNull : kFree, 0);
  next_free(block);
}

static void* move_early(void* block, size_t size) {
  void* moved = malloc(size);
  const size_t room = (size_t)(early + sizeof early - (char*)block);
  if (moved != NULL) memcpy(moved, block, size < room ? size : room);
  return moved;
}

void* realloc(void* block, size_t size) {
  if (is_early(block) || !ready()) return block == NULL ? malloc(size) : move_early(block, size);
  COUNTED(kRealloc, size);
  return next_realloc(block, size);
}

void* reallocarray(void* block, size_t count, size_t size) {
  size_t bytes;
  const bool overflow = __builtin_mul_overflow(count, size, &bytes);
  if (!overflow && (is_early(block) || !ready())) return realloc(block, bytes);
  if (!ready()) return NULL;
  COUNTED(kRealloc, overflow ? 0 : bytes);
  return next_reallocarray(block, count, size);
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  if (!ready()) return ENOMEM;
  COUNTED(kAligned, size);
  return next_posix_memalign(out, alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  if (!ready()) return NULL;
  COUNTED(kAligned, size);
  return next_aligned_alloc(alignment, size);
}

void* memalign(size_t alignment, size_t size) {
  if (!ready()) return NULL;
  COUNTED(kAligned, size);
  return next_memalign(alignment, size);
}

void* valloc(size_t size) {
  if (!ready()) return NULL;
  COUNTED(kAligned, size);
  return next_valloc(size);
}

void* pvalloc(size_t size) {
  if (!ready()) return NULL;
  COUNTED(kAligned, size);
  return next_pvalloc(size);
}

// --- C++: an allocator may have operators of its own ---------------------------------------------

// A program may load its C++ library where RTLD_NEXT does not look; then malloc and free serve as
// operators. The look-up is inside the counted call, so its allocations are not counted.
#define NEXT_OPERATOR(type, name)                               \
  static _Atomic(type) known;                                   \
  type to = atomic_load_explicit(&known, memory_order_relaxed); \
  if (to == NULL) {                                             \
    find_next(&to, name);                                       \
    atomic_store_explicit(&known, to, memory_order_relaxed);    \
  }

static void* or_abort(void* block) {
  if (block == NULL) abort();
  return block;
}

#define NEW(name, kind, parameters, arguments, without)         \
  __attribute__((visibility("default"))) void* name parameters; \
  void* name parameters {                                       \
    typedef void*(*type)parameters;                             \
    if (!ready()) return or_abort(early_malloc(size));          \
    COUNTED(kind, size);                                        \
    NEXT_OPERATOR(type, #name)                                  \
    return to != NULL ? to arguments : without;                 \
  }

#define PLAIN or_abort(next_malloc(size))
#define ALIGNED or_abort(next_memalign(alignment, size))
NEW(_Znwm, kMalloc, (size_t size), (size), PLAIN)
NEW(_Znam, kMalloc, (size_t size), (size), PLAIN)
NEW(_ZnwmRKSt9nothrow_t, kMalloc, (size_t size, const void* tag), (size, tag), next_malloc(size))
NEW(_ZnamRKSt9nothrow_t, kMalloc, (size_t size, const void* tag), (size, tag), next_malloc(size))
NEW(_ZnwmSt11align_val_t, kAligned, (size_t size, size_t alignment), (size, alignment), ALIGNED)
NEW(_ZnamSt11align_val_t, kAligned, (size_t size, size_t alignment), (size, alignment), ALIGNED)
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, kAligned, (size_t size, size_t alignment, const void* tag),
    (size, alignment, tag), next_memalign(alignment, size))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, kAligned, (size_t size, size_t alignment, const void* tag),
    (size, alignment, tag), next_memalign(alignment, size))

#define DELETE(name, parameters, arguments)                    \
  __attribute__((visibility("default"))) void name parameters; \
  void name parameters {                                       \
    typedef void(*type) parameters;                            \
    if (is_early(block) || !ready()) return;                   \
    COUNTED(block == NULL ? kFreeNull : kFree, 0);             \
    NEXT_OPERATOR(type, #name)                                 \
    if (to != NULL)                                            \
      to arguments;                                            \
    else                                                       \
      next_free(block);                                        \
  }

DELETE(_ZdlPv, (void* block), (block))
DELETE(_ZdaPv, (void* block), (block))
DELETE(_ZdlPvm, (void* block, size_t size), (block, size))
DELETE(_ZdaPvm, (void* block, size_t size), (block, size))
DELETE(_ZdlPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))
DELETE(_ZdaPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))
DELETE(_ZdlPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))
DELETE(_ZdaPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))
DELETE(_ZdlPvmSt11align_val_t, (void* block, size_t size, size_t alignment),
       (block, size, alignment))
DELETE(_ZdaPvmSt11align_val_t, (void* block, size_t size, size_t alignment),
       (block, size, alignment))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag),
       (block, alignment, tag))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag),
       (block, alignment, tag))
