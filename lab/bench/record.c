// A library to preload that records every allocation of a process (trace_format.h).
//
// NEAR_TRACE names the file. A process that finds that file present writes to NAME.<process>, or
// NAME.<process>.<number>. A program that takes the place of another by exec writes the file of its
// process anew, so a process leaves one file, that of its last program: what `sh -c` or `env` did
// before it is not what is recorded. The calls themselves go to the next malloc in search order.
// The file is written through a window that is mapped shared, so nothing is lost when the process
// is killed, and memory is bounded by the window. With NEAR_TRACE_STACKS, FILE.stacks has what each
// call stack allocated (trace_format.h); a stack for which the table has no room is in entry 0.
// Invariants: under `lock`, bytes [0, at) of the window are whole events, the rest is 0; a block of
// `bootstrap`, which serves while dlsym looks for the next malloc, is neither recorded nor freed.
// Thread-safety: any thread; what is not atomic is guarded by `lock`. A thread inside the recorder
// is not recorded. Sources: dlsym(3), pthread_atfork(3). A realloc needs two events because another
// thread may get the old block before the call returns.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "trace_format.h"

enum {
  kWindow = 1 << 20,
  kLongestEvent = 64,
  kBootstrap = 1 << 16,
  kBootstrapAlignment = 16,
  kNames = 1000,
  kProbes = 64,  // entries that a stack may be in
};

static struct {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  void* (*memalign)(size_t, size_t);
} next;

static _Alignas(kBootstrapAlignment) char bootstrap[kBootstrap];
static atomic_size_t bootstrap_used;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { kUnopened, kOpen, kOff } state;
static int file = -1;
static off_t window_start;
static unsigned char* window;
static size_t at;
static uint64_t last_ns, last_address, events;
static uint32_t last_thread, threads;
static char path[4096];            // the trace's
static struct TraceStack* stacks;  // null: none are recorded
static int stacks_file = -1;
static atomic_bool can_unwind;  // the unwinder is loaded

// With initial-exec, the first access does not allocate.
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
static __thread INITIAL_EXEC uint32_t thread_number;  // + 1; 0: not seen yet
static __thread INITIAL_EXEC bool is_inside;
static __thread INITIAL_EXEC bool is_searching;

// --- the next malloc ----------------------------------------------------------------------------

static void find(const char* name, void* function) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  memcpy(function, &found, sizeof found);
}

// Effect: `next` is set. Returns false inside its own search, when the bootstrap must serve.
static bool is_ready(void) {
  if (next.free != NULL) return true;
  if (is_searching) return false;
  is_searching = true;
  find("malloc", &next.malloc);
  find("calloc", &next.calloc);
  find("realloc", &next.realloc);
  find("memalign", &next.memalign);
  find("free", &next.free);
  is_searching = false;
  return true;
}

static bool is_bootstrap(const void* block) {
  return (const char*)block >= bootstrap && (const char*)block < bootstrap + kBootstrap;
}

// The memory is zero, because it is never reused.
static void* bootstrap_malloc(size_t size) {
  if (size > kBootstrap) return NULL;
  const size_t step = (size + kBootstrapAlignment) & -(size_t)kBootstrapAlignment;
  const size_t start = atomic_fetch_add_explicit(&bootstrap_used, step, memory_order_relaxed);
  return start + step <= kBootstrap ? bootstrap + start : NULL;
}

// --- the file -----------------------------------------------------------------------------------

static void give_up(const char* what) {
  char text[128];
  const int length = snprintf(text, sizeof text, "record: %s: %s\n", what, strerror(errno));
  if (write(STDERR_FILENO, text, (size_t)length) < 0) errno = 0;
  state = kOff;
}

// Effect: the window begins at the page of `position`, which is `at` bytes behind its start.
static bool move_window(off_t position) {
  const off_t page = sysconf(_SC_PAGESIZE);
  if (window != NULL) munmap(window, kWindow);
  window = NULL;
  window_start = position / page * page;
  // If blocks were not allocated now, a full disk would raise a fatal signal inside a malloc.
  errno = posix_fallocate(file, window_start, kWindow);
  if (errno != 0) return false;
  void* const mapped = mmap(NULL, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, file, window_start);
  if (mapped == MAP_FAILED) return false;
  window = mapped;
  at = (size_t)(position - window_start);
  return true;
}

// When the process started, in ticks since the boot; 0: unknown. Source: proc(5), field 22.
static uint64_t start_of_process(void) {
  char text[1024];
  const int status = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const ssize_t length = status < 0 ? -1 : read(status, text, sizeof text - 1);
  if (status >= 0) close(status);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* word = strrchr(text, ')');  // the second field, a name, may hold anything
  for (int number = 2; word != NULL && number < 22; ++number) word = strchr(word + 1, ' ');
  return word == NULL ? 0 : strtoull(word, NULL, 10);
}

// Opens the file if an earlier program of this process wrote it, and empties it. Else returns -1,
// with EEXIST.
static int open_own_file(uint64_t started) {
  struct TraceHeader header;
  const int found = open(path, O_RDWR | O_CLOEXEC);
  const bool is_own = found >= 0 && pread(found, &header, sizeof header, 0) == sizeof header &&
                      memcmp(header.magic, TRACE_MAGIC, sizeof header.magic) == 0 &&
                      header.process == (uint32_t)getpid() && header.started == started;
  if (is_own && started != 0 && ftruncate(found, 0) == 0) return found;
  if (found >= 0) close(found);
  errno = EEXIST;
  return -1;
}

static int open_new_file(const char* name, uint64_t started) {
  snprintf(path, sizeof path, "%s", name);
  for (int i = 0;; ++i) {
    int made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (made < 0 && errno == EEXIST) made = open_own_file(started);
    if (made >= 0 || errno != EEXIST || i == kNames) return made;
    if (i == 0) {
      snprintf(path, sizeof path, "%s.%d", name, (int)getpid());
    } else {
      snprintf(path, sizeof path, "%s.%d.%d", name, (int)getpid(), i);
    }
  }
}

// Effect: behind the table is what is mapped now, by which addresses get names.
static void write_maps(void) {
  char part[4096];
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  off_t to = kTraceStacks * sizeof *stacks;
  if (ftruncate(stacks_file, to) != 0) errno = 0;
  ssize_t length;
  while (maps >= 0 && (length = read(maps, part, sizeof part)) > 0)
    to += pwrite(stacks_file, part, (size_t)length, to);
  if (maps >= 0) close(maps);
}

// Effect: `stacks` is a table in a file beside the trace, or null.
static void open_stacks(void) {
  char name[sizeof path + 8];
  snprintf(name, sizeof name, "%s.stacks", path);
  stacks_file = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const size_t size = kTraceStacks * sizeof *stacks;
  errno = stacks_file < 0 ? errno : posix_fallocate(stacks_file, 0, (off_t)size);
  void* const mapped = errno != 0
                           ? MAP_FAILED
                           : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, stacks_file, 0);
  stacks = mapped == MAP_FAILED ? NULL : mapped;
  if (stacks != NULL) write_maps();
}

static void open_file(void) {
  const char* const name = getenv("NEAR_TRACE");
  if (name == NULL) {
    if (environ != NULL) state = kOff;
    return;
  }
  const uint64_t started = start_of_process();
  file = open_new_file(name, started);
  if (file < 0 || !move_window(0)) {
    give_up("cannot write the trace");
    return;
  }
  const struct TraceHeader header = {TRACE_MAGIC, kTraceVersion, (uint32_t)getpid(), started};
  memcpy(window, &header, sizeof header);
  at = sizeof header;
  last_ns = last_address = events = 0;
  last_thread = threads = 0;
  state = kOpen;
  if (getenv("NEAR_TRACE_STACKS") != NULL) open_stacks();
}

// --- events -------------------------------------------------------------------------------------

static void put(uint64_t value) {
  for (; value >= 0x80; value >>= 7) window[at++] = (unsigned char)(value | 0x80);
  window[at++] = (unsigned char)value;
}

static void put_address(const void* block) {
  const uint64_t address = (uintptr_t)block;
  const int64_t difference = (int64_t)(address - last_address);
  put(((uint64_t)difference << 1) ^ (uint64_t)(difference >> 63));
  last_address = address;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Writes the event's kind last, so that a reader in another process sees only whole events.
static void put_event(enum TraceKind kind, const void* block, size_t size, size_t alignment) {
  const size_t start = at++;
  const uint64_t now = now_ns();
  if (thread_number == 0) thread_number = ++threads;
  const bool is_other = thread_number - 1 != last_thread;
  if (is_other) put(last_thread = thread_number - 1);
  put(last_ns == 0 || now < last_ns ? 0 : now - last_ns);
  last_ns = now;
  if (kind == kTraceAligned) put(alignment);
  if (kind != kTraceFree && kind != kTraceResize) put(size);
  put_address(block);
  ++events;
  window[start] = (unsigned char)(kind | (is_other ? kTraceOtherThread : 0));
}

static bool can_unwind_now(void) {
  return atomic_load_explicit(&can_unwind, memory_order_acquire);  // pairs: can_unwind
}

// Adds the allocation to the entry of its stack; `frames` behind the last one are null.
static void put_stack(void* const* frames, size_t size) {
  uint64_t hash = 0;
  for (int i = 0; i < kTraceFrames; ++i) hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15;
  struct TraceStack* entry = stacks;
  for (uint64_t i = 0; i < kProbes; ++i) {
    struct TraceStack* const next_entry = stacks + 1 + ((hash >> 32) + i) % (kTraceStacks - 1);
    if (next_entry->calls == 0) memcpy(next_entry->frames, frames, sizeof next_entry->frames);
    if (memcmp(next_entry->frames, frames, sizeof next_entry->frames) != 0) continue;
    entry = next_entry;
    break;
  }
  ++entry->calls;
  entry->bytes += size;
}

static void record(enum TraceKind kind, const void* block, size_t size, size_t alignment) {
  if (is_inside) return;
  const int kept = errno;
  is_inside = true;
  void* frames[kTraceFrames] = {NULL};
  // The unwinder may take locks of the loader, so it runs without ours.
  const bool has_stack = kind != kTraceFree && kind != kTraceResize && can_unwind_now();
  if (has_stack) backtrace(frames, kTraceFrames);
  pthread_mutex_lock(&lock);
  if (state == kUnopened) open_file();
  if (state == kOpen && at + kLongestEvent > kWindow && !move_window(window_start + (off_t)at))
    give_up("cannot go on with the trace");
  if (state == kOpen) put_event(kind, block, size, alignment);
  if (state == kOpen && has_stack && stacks != NULL) put_stack(frames, size);
  pthread_mutex_unlock(&lock);
  is_inside = false;
  errno = kept;
}

static void* recorded(enum TraceKind kind, void* block, size_t size, size_t alignment) {
  if (block != NULL) record(kind, block, size, alignment);
  return block;
}

// --- the process --------------------------------------------------------------------------------

// Allocations by other fork handlers in between are not recorded, because the lock is held.
static void before_fork(void) {
  is_inside = true;
  pthread_mutex_lock(&lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&lock);
  is_inside = false;
}

// The child opens a file of its own, because the inherited window is its parent's.
static void in_child(void) {
  if (window != NULL) munmap(window, kWindow);
  if (file >= 0) close(file);
  if (stacks != NULL) munmap(stacks, kTraceStacks * sizeof *stacks);
  if (stacks_file >= 0) close(stacks_file);
  window = NULL;
  stacks = NULL;
  file = stacks_file = -1;
  thread_number = 0;
  if (state == kOpen) state = kUnopened;
  after_fork();
}

__attribute__((constructor)) static void begin(void) {
  is_ready();
  pthread_atfork(before_fork, after_fork, in_child);
  if (getenv("NEAR_TRACE_STACKS") == NULL) return;
  void* frame;
  is_inside = true;
  backtrace(&frame, 1);  // the first call loads the unwinder
  is_inside = false;
  atomic_store_explicit(&can_unwind, true, memory_order_release);  // pairs: can_unwind
}

// Calls after it, by other destructors, are not recorded.
__attribute__((destructor)) static void end(void) {
  pthread_mutex_lock(&lock);
  if (state == kOpen && (at + kLongestEvent <= kWindow || move_window(window_start + (off_t)at))) {
    window[at++] = kTraceEnd;
    put(0);
    put(events);
    if (ftruncate(file, window_start + (off_t)at) != 0) give_up("cannot end the trace");
    if (stacks != NULL) write_maps();
  }
  state = kOff;
  pthread_mutex_unlock(&lock);
}

// --- the calls ----------------------------------------------------------------------------------

void* malloc(size_t size) {
  if (!is_ready()) return bootstrap_malloc(size);
  return recorded(kTraceMalloc, next.malloc(size), size, 0);
}

void* calloc(size_t count, size_t size) {
  if (!is_ready())
    return size != 0 && count > kBootstrap / size ? NULL : bootstrap_malloc(count * size);
  return recorded(kTraceCalloc, next.calloc(count, size), count * size, 0);
}

void free(void* block) {
  if (block == NULL || is_bootstrap(block)) return;
  record(kTraceFree, block, 0, 0);
  next.free(block);
}

// Copies past the end of the block if `size` is larger; the whole bootstrap is readable.
static void* leave_bootstrap(const char* block, size_t size) {
  void* const moved = malloc(size);
  const size_t readable = (size_t)(bootstrap + kBootstrap - block);
  if (moved != NULL) memcpy(moved, block, size < readable ? size : readable);
  return moved;
}

void* realloc(void* block, size_t size) {
  if (block == NULL) return malloc(size);
  if (is_bootstrap(block)) return leave_bootstrap(block, size);
  if (size == 0) {
    record(kTraceFree, block, 0, 0);
    return recorded(kTraceMalloc, next.realloc(block, 0), 0, 0);
  }
  record(kTraceResize, block, 0, 0);
  void* const resized = next.realloc(block, size);
  record(kTraceResized, resized, size, 0);
  return resized;
}

void* reallocarray(void* block, size_t count, size_t size) {
  if (size != 0 && count > SIZE_MAX / size) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, count * size);
}

void* memalign(size_t alignment, size_t size) {
  if (!is_ready()) return NULL;
  return recorded(kTraceAligned, next.memalign(alignment, size), size, alignment);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
    return EINVAL;
  const int kept = errno;
  void* const made = memalign(alignment, size);
  errno = kept;
  if (made == NULL) return ENOMEM;
  *block = made;
  return 0;
}

void* valloc(size_t size) { return memalign((size_t)sysconf(_SC_PAGESIZE), size); }

void* pvalloc(size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return memalign(page, (size + page - 1) & -page);
}
