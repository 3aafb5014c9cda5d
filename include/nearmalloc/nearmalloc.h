/* nearmalloc: memory near the thread that uses it. The public C interface.
 *
 * Every `near_X` is the twin of the standard or glibc function X and has its contract; the twins
 * never override anything, so a program can use both allocators at once. `libnearmalloc.{so,a}`
 * exports the twins *and* the standard names (it overrides malloc); `libnearmalloc-api.{so,a}`
 * exports the twins alone.
 *
 * Common to all functions below, unless a function says otherwise:
 *  - sizes are in bytes; a block of at least the asked size is returned, aligned to 16 bytes;
 *  - they may be called from any thread at any time, also before `main`, from `atexit` handlers,
 *    from destructors of thread-local objects, and in the child after `fork`; they are not
 *    async-signal-safe (POSIX requires it of none), but a handler that interrupted one of them may
 *    fork: in its child they may fail, and do not hang;
 *  - none is a cancellation point, except those that write to a stream;
 *  - out of memory: NULL with `errno` = ENOMEM; nothing is changed or lost;
 *  - `free`-like functions keep `errno` (POSIX.1-2024) and accept NULL;
 *  - an invalid or double free that is detected is handled as the option `invalid` says: abort
 *    (default), report, ignore;
 *  - a block of another allocator in the process is freed, resized and measured by that allocator.
 */
#ifndef NEARMALLOC_NEARMALLOC_H
#define NEARMALLOC_NEARMALLOC_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NEAR_VERSION_MAJOR 0
#define NEAR_VERSION_MINOR 2
#define NEAR_VERSION_PATCH 0

#if defined(__GNUC__)
#define NEAR_API __attribute__((visibility("default")))
#define NEAR_MALLOC_LIKE __attribute__((malloc, warn_unused_result))
#else
#define NEAR_API
#define NEAR_MALLOC_LIKE
#endif

#ifdef __cplusplus
#define NEAR_NOEXCEPT noexcept
extern "C" {
#else
#define NEAR_NOEXCEPT
#endif

/* --- ISO C --- */

/* A block of `size` bytes, contents indeterminate. `size` 0 gives a unique pointer that can be
 * freed. [C17 7.22.3.4] PTRDIFF_MAX and more: ENOMEM. */
NEAR_API NEAR_MALLOC_LIKE void* near_malloc(size_t size) NEAR_NOEXCEPT;

/* A zeroed block for `count` elements of `size` bytes; an overflowing product is ENOMEM. [C17
 * 7.22.3.2] */
NEAR_API NEAR_MALLOC_LIKE void* near_calloc(size_t count, size_t size) NEAR_NOEXCEPT;

/* Resizes `block`, moving it if need be; the common prefix is kept. `block` NULL is `near_malloc`.
 * `size` 0 frees the block and returns NULL (as glibc does; C23 leaves it undefined). On failure
 * the old block stays valid. A block that is resized where it is stays on its NUMA node; one that
 * moves comes to that of the calling thread. [C17 7.22.3.5] */
NEAR_API void* near_realloc(void* block, size_t size) NEAR_NOEXCEPT;

/* Returns a block. NULL is ignored. Keeps `errno`. [C17 7.22.3.3; POSIX.1-2024] */
NEAR_API void near_free(void* block) NEAR_NOEXCEPT;

/* As `near_free`; `size` is the size that was asked for. The `check` build reports a mismatch. [C23
 * 7.24.3.4] */
NEAR_API void near_free_sized(void* block, size_t size) NEAR_NOEXCEPT;

/* As `near_free` for a block of `near_aligned_alloc(alignment, size)`. [C23 7.24.3.5] */
NEAR_API void near_free_aligned_sized(void* block, size_t alignment, size_t size) NEAR_NOEXCEPT;

/* A block whose address is a multiple of `alignment`, a power of two (else NULL and EINVAL). `size`
 * need not be a multiple of it. [C17 7.22.3.1 with DR 460] */
NEAR_API NEAR_MALLOC_LIKE void* near_aligned_alloc(size_t alignment, size_t size) NEAR_NOEXCEPT;

/* --- POSIX, BSD, glibc --- */

/* Stores an aligned block in `*out` and returns 0, or returns EINVAL (alignment not a power of two
 * multiple of sizeof(void*)) or ENOMEM and leaves `*out` alone. ENOMEM is in `errno` too, as with
 * glibc; the other results leave `errno` alone. [POSIX.1-2017; glibc] */
NEAR_API int near_posix_memalign(void** out, size_t alignment, size_t size) NEAR_NOEXCEPT;

/* As `near_aligned_alloc`; an alignment that is no power of two is rounded up to one, as glibc
 * does. [glibc] */
NEAR_API NEAR_MALLOC_LIKE void* near_memalign(size_t alignment, size_t size) NEAR_NOEXCEPT;

/* A page-aligned block. [SVr4] */
NEAR_API NEAR_MALLOC_LIKE void* near_valloc(size_t size) NEAR_NOEXCEPT;

/* A page-aligned block of whole pages; `size` is rounded up to a page, 0 to one page. [glibc] */
NEAR_API NEAR_MALLOC_LIKE void* near_pvalloc(size_t size) NEAR_NOEXCEPT;

/* `near_realloc(block, count * size)` with the product checked: ENOMEM, and `block` stays valid.
 * [POSIX.1-2024] */
NEAR_API void* near_reallocarray(void* block, size_t count, size_t size) NEAR_NOEXCEPT;

/* The bytes usable at `block`, at least what was asked for; 0 for NULL. For a block of another
 * allocator in the process, this is what that allocator says. A freed block must not be passed. The
 * result for it is 0 if the allocator knows of the free: for a large block, for the block of its
 * span that was freed last, and in the `check` build for every block; else the size that the block
 * had. [glibc] */
NEAR_API size_t near_malloc_usable_size(void* block) NEAR_NOEXCEPT;

/* Gives all free memory that can be given back to the system at once, except about `pad` bytes;
 * returns 1 if any was released, else 0. Free blocks in the lists that *other running* threads
 * allocate from stay with them. [glibc] */
NEAR_API int near_malloc_trim(size_t pad) NEAR_NOEXCEPT;

/* glibc's parameters: accepted (1) and without effect; use `near_malloc_trim` for M_PURGE-like
 * needs. Unknown parameters return 0. [SVID] */
NEAR_API int near_mallopt(int parameter, int value) NEAR_NOEXCEPT;

/* Totals in glibc's structures: `hblks`/`hblkhd` large blocks and their bytes, `arena` the other
 * committed bytes, `uordblks` the part of `arena` in live blocks (free blocks in the lists that
 * threads allocate from now count as live), `fordblks` the free part, `keepcost` what a trim could
 * give back. So `uordblks` + `hblkhd` bytes are in use. `mallinfo` saturates at INT_MAX. [glibc] */
NEAR_API struct mallinfo near_mallinfo(void) NEAR_NOEXCEPT;
#if defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 33))
NEAR_API struct mallinfo2 near_mallinfo2(void) NEAR_NOEXCEPT;
#endif

/* Prints a summary to stderr without allocating. [glibc] */
NEAR_API void near_malloc_stats(void) NEAR_NOEXCEPT;

/* Writes the state as XML to `stream`; `options` must be 0 (else EINVAL is returned). 0 on success.
 * [glibc] */
NEAR_API int near_malloc_info(int options, FILE* stream) NEAR_NOEXCEPT;

/* --- nearmalloc's own --- */

/* "MAJOR.MINOR.PATCH" of the library that is loaded; a static string. */
NEAR_API const char* near_version(void) NEAR_NOEXCEPT;

/* What the allocator knows of itself, in bytes unless a field says otherwise. Other threads change
 * the counters meanwhile: each is consistent by itself, but not with the others. */
struct near_stats {
  uint64_t reserved;  /* address space that nodes use: mapped, or free for them to map (again) */
  uint64_t committed; /* of it mapped */
  uint64_t in_spans; /* in spans that serve blocks (live blocks, and free ones inside such spans) */
  uint64_t large;    /* of it in large blocks */
  uint64_t large_blocks;      /* number of large blocks */
  uint64_t dirty;             /* in free slices that are still resident */
  uint64_t purged;            /* total ever given back to the system */
  uint64_t purge_calls;       /* system calls that gave memory back */
  uint64_t commit_calls;      /* system calls that made memory usable */
  uint64_t heaps;             /* heaps ever made (type-stable; reused by later threads) */
  uint64_t heaps_parked;      /* of them without a thread now */
  uint64_t adoptions;         /* spans taken over from parked heaps */
  uint64_t rehomes;           /* threads that moved to another node's heap */
  uint64_t spills;            /* spans, or blocks of a named node, that another node served */
  uint64_t bind_refused;      /* mbind calls the kernel refused */
  uint64_t remote_claims;     /* spans freed for an owner that does not run */
  uint64_t free_batches;      /* calls of near_free_batch */
  uint64_t free_batch_blocks; /* blocks freed by them */
  uint64_t free_batch_groups; /* groups they made, as near_free_batch returns them */
  uint32_t nodes;             /* NUMA nodes in use */
  uint64_t free_batch_remote; /* groups handed to other threads, by one or two atomic operations */
  uint64_t refills;           /* times that malloc found no free block and took its heap's lock */
  uint64_t span_events;       /* times that free took it, because a span's countdown ended */
  uint64_t remote_blocks;     /* blocks of other threads' frees, when their owners took them back */
};

/* Fills `*out`. Takes time in proportion to the number of nodes and heaps. */
NEAR_API void near_get_stats(struct near_stats* out) NEAR_NOEXCEPT;

/* What the allocator knows of one NUMA node; units and consistency as above. */
struct near_node_stats {
  uint32_t node;         /* the kernel's number of it */
  uint32_t heaps;        /* heaps at home there, parked ones included */
  uint64_t reserved;     /* address space */
  uint64_t committed;    /* of it mapped */
  uint64_t in_spans;     /* in spans that serve blocks, and cached */
  uint64_t cached;       /* of it in empty spans that heaps keep, and in freed blocks that wait */
  uint64_t dirty;        /* in free slices that are still resident */
  uint64_t purged;       /* total ever given back to the system */
  uint64_t rehomes;      /* threads that moved there */
  uint64_t adoptions;    /* spans taken over from its parked heaps */
  uint64_t spills_out;   /* requests for it that another node served */
  uint64_t spills_in;    /* requests for others that it served */
  uint64_t refused;      /* strict requests that it could not serve */
  uint64_t bind_refused; /* mbind calls for it that the kernel refused */
};

/* Fills `*out` for node number `index`, from 0 to `nodes` of near_stats less 1. Returns 0, or
 * EINVAL if there is no such node. Takes time in proportion to the number of heaps. */
NEAR_API int near_get_node_stats(unsigned index, struct near_node_stats* out) NEAR_NOEXCEPT;

/* Fills `freed_by`, which has room for `nodes` of near_stats: how many blocks of node number
 * `index` were freed, by the home node of the thread that freed them (for a thread without a heap,
 * the node it ran on). A free by the thread whose heap owns the span is counted when the span's
 * countdown ends, when the thread ends, and for the spans that the calling thread allocates from
 * now: each other span hides some. All other frees are counted at once.
 * Returns 0, or EINVAL if there is no such node. */
NEAR_API int near_get_freed(unsigned index, uint64_t* freed_by) NEAR_NOEXCEPT;

/* Writes all statistics to `stream`, as one JSON object: `totals` as near_stats, `nodes` as
 * near_node_stats each, `freed` as near_get_freed, a row for each node; `placement` as
 * near_sample_placement of up to 1024 pages, null where the topology is given by an option.
 * Returns 0; EIO, also if the stream had an error before; EINVAL if it is NULL. (With the option
 * `stats` = json the object goes to stderr at exit.) */
NEAR_API int near_stats_json(FILE* stream) NEAR_NOEXCEPT;

/* Writes the statistics to `stream` in the text format of OpenMetrics 1.0, for Prometheus and the
 * like. Each field of near_stats and near_node_stats is a gauge or a counter `nearmalloc_...`, and
 * those of a node have the label `node`, with the kernel's number. near_get_freed is
 * `nearmalloc_freed_blocks_total` with the labels `node` and `by_node`. The list is in
 * docs/memory.md. Returns as near_stats_json. (With the option `stats` = openmetrics it is written
 * to stderr at exit.) */
NEAR_API int near_stats_openmetrics(FILE* stream) NEAR_NOEXCEPT;

/* Writes to `stream`, in sentences and KiB, why the resident memory (RSS) of the process is what it
 * is: live blocks; free ones in spans, by size class; what magazines and heaps keep; what is dirty,
 * and when it leaves; pages that are resident and unused, as in huge pages; the allocator's own
 * structures; and the process's other mappings. The allocator's parts are measured from its
 * structures and from the kernel's page table (/proc/self/pagemap). Of each other mapping, it
 * counts the pages that the kernel calls resident, without the allocator's own. The kernel's total
 * stands beside the sum. Needs /proc; waits for locks of heaps, so it is for operators. Blocks that
 * busy threads take or free meanwhile may be counted either way.
 * Returns 0; EIO, also if the stream had an error before; EINVAL if it is NULL; ENOSYS if /proc
 * cannot be read, or the caller is a signal handler that interrupted the allocator. (With the
 * option `explain` = exit or signal it is written to stderr at exit, or at each SIGUSR2.) */
NEAR_API int near_explain(FILE* stream) NEAR_NOEXCEPT;

/* --- the sampling profiler: which code allocated the memory (docs/profile.md) --- */

/* Samples allocations from now on, one in `interval` bytes on average, in all threads; 0: as the
 * option `profile_interval` says. What was recorded before is forgotten. The fast paths of malloc
 * and free take not one instruction more before, meanwhile or after; their slow paths do while it
 * samples. The profiler's own memory is at most 1 MiB, beside the slices of 64 KiB that sampled
 * blocks lie in. Returns 0; EALREADY: it samples already; EINVAL: more than 1000000000; ENOMEM. */
NEAR_API int near_profile_start(size_t interval) NEAR_NOEXCEPT;

/* Samples no more. What was recorded stays, and frees of sampled blocks are still recorded.
 * Returns 0, or EALREADY if it did not sample. */
NEAR_API int near_profile_stop(void) NEAR_NOEXCEPT;

enum near_profile_format {
  NEAR_PROFILE_PPROF,         /* for `pprof` and `go tool pprof`: not compressed */
  NEAR_PROFILE_JSON,          /* all that is known of each site */
  NEAR_PROFILE_JEPROF,        /* text for jeprof and gperftools' pprof */
  NEAR_PROFILE_COLLAPSED,     /* a line for each stack, with the bytes ever allocated */
  NEAR_PROFILE_COLLAPSED_LIVE /* with the bytes that are live */
};

/* Writes what was recorded since the last start to `stream`. No thread may unload code (dlclose)
 * meanwhile: names are read from the loaded files. Returns 0; EIO, also if the stream had an error
 * before; EINVAL if it is NULL or there is no such format; ENODATA if the profiler was never
 * started. (With the option `profile` = on a process writes it to a file at exit.) */
NEAR_API int near_profile_write(FILE* stream, enum near_profile_format format) NEAR_NOEXCEPT;

/* What the kernel says about some pages of spans. */
struct near_placement {
  uint64_t right;   /* they lie on the node that the allocator believes */
  uint64_t wrong;   /* they lie on another */
  uint64_t absent;  /* they have no memory: never touched, or given back */
  uint64_t refused; /* the kernel would not say (move_pages is forbidden) */
};

/* Asks the kernel where up to `pages` pages lie, spread evenly over all spans. The same pages are
 * asked for while no span comes or goes. One system call for 64 pages; for operators and tests. */
NEAR_API void near_sample_placement(size_t pages, struct near_placement* out) NEAR_NOEXCEPT;

/* Walks every structure of the allocator that the caller may look at (its own heap, parked and
 * shared heaps, every node) and checks its invariants. Returns the number of violations and names
 * each on stderr. Slow: for tests and debuggers. Other threads may run; it omits their heaps. */
NEAR_API size_t near_check(void) NEAR_NOEXCEPT;

/* Where the library's structures are, for tools that read a process from outside (`./near top`).
 * An entry has a number, such as the offset of a field, or an address; one without a name ends the
 * list. A tool looks for the entry `version`, whose number changes whenever the meaning of another
 * entry does, and refuses a version that it does not know. */
#define NEAR_LAYOUT_ENTRIES 96
struct near_layout {
  struct near_layout_entry {
    char name[24];
    uint64_t number;
    const void* address;
  } entries[NEAR_LAYOUT_ENTRIES];
};
extern NEAR_API const struct near_layout near_layout;

/* 1 if `block` lies in memory managed by this library, else 0. */
NEAR_API int near_owns(const void* block) NEAR_NOEXCEPT;

/* Frees `count` blocks, as `near_free` of each of them in this order would: of any sizes, from any
 * threads, NULL among them. It is made for runs of blocks that other threads allocated: those of a
 * span (64 KiB and more that serve one size) go to its owner together, with one atomic operation,
 * or two if the owner has to be told.
 * Blocks of the calling thread's own spans are freed together if they are neighbours in `blocks`
 * and lie in one span. Returns the number of such groups; a large block and one of another
 * allocator is a group by itself, so the number of blocks for each group shows what was gained.
 * Uses 4 KiB of stack and allocates nothing. If a block is named twice, what `near_free` would
 * detect is reported, and by the `check` build all of it; the others are freed nevertheless. */
NEAR_API size_t near_free_batch(void* const* blocks, size_t count) NEAR_NOEXCEPT;

/* The NUMA node (kernel number) of `block`, or -1 if the library does not manage the block. */
NEAR_API int near_node_of(const void* block) NEAR_NOEXCEPT;

/* --- memory of a node, whichever the calling thread runs on ---
 *
 * Nodes are named by the kernel's numbers. Blocks are freed by `near_free`, or `free` where this
 * library is behind it, from any thread; freed memory is used again for the same node alone.
 * Without NEAR_STRICT another node serves, the nearest first, if this one has no memory left; it is
 * counted in `spills_out` of near_node_stats. With it the result is NULL with ENOMEM, counted in
 * `refused`. What the kernel does when a block is touched and the node's memory is used up is the
 * business of the option `bind`. Unknown node or flag: NULL with EINVAL. */

#define NEAR_STRICT 1u

/* As `near_malloc`. */
NEAR_API NEAR_MALLOC_LIKE void* near_malloc_on_node(size_t size, int node,
                                                    unsigned flags) NEAR_NOEXCEPT;

/* As `near_aligned_alloc`. */
NEAR_API NEAR_MALLOC_LIKE void* near_aligned_alloc_on_node(size_t alignment, size_t size, int node,
                                                           unsigned flags) NEAR_NOEXCEPT;

/* A heap for any threads: of one node, under one lock; or interleaved, with a block of each node in
 * turn, under one lock for each node. */
struct near_heap;

/* Flags hold for all blocks of the heap. NULL with ENOMEM: there is no memory, or there are 65408
 * heaps. */
NEAR_API struct near_heap* near_heap_create_on_node(int node, unsigned flags) NEAR_NOEXCEPT;
NEAR_API struct near_heap* near_heap_create_interleaved(void) NEAR_NOEXCEPT;

/* As `near_malloc` and `near_aligned_alloc`. */
NEAR_API NEAR_MALLOC_LIKE void* near_heap_malloc(struct near_heap* heap, size_t size) NEAR_NOEXCEPT;
NEAR_API NEAR_MALLOC_LIKE void* near_heap_aligned_alloc(struct near_heap* heap, size_t alignment,
                                                        size_t size) NEAR_NOEXCEPT;

/* Ends the heap, which no thread may use any more. Its blocks stay valid until they are freed. NULL
 * is ignored. */
NEAR_API void near_heap_destroy(struct near_heap* heap) NEAR_NOEXCEPT;

/* Stores the value of the option (docs/options.md) with that lower-case name. Returns 0, or EINVAL
 * if there is none of that name. */
NEAR_API int near_get_option(const char* name, long* value) NEAR_NOEXCEPT;

/* Sets an option; this value replaces that of the environment. Returns 0; EINVAL if there is no
 * such option, or `value` is out of its range; ENOMEM if `populate_mib` could not be met in full.
 * After the first allocation `region_mib` has no effect, and `bind` only on memory that is mapped
 * later.
 *
 * `purge_thread` 0 ends the library's own thread, and it is gone when the call returns; 1 starts it
 * if two threads are there, or lets the next pthread_create do so. There is such a thread only
 * while the process has two others; `libnearmalloc.so` starts it in pthread_create and thrd_create
 * and nowhere else. With the other three libraries the second thread starts it by its first
 * allocation: a program that goes into a sandbox with threads sets the option to 0 before. What the
 * thread did is then done by the slow paths of malloc and free, and by `near_malloc_trim`.
 *
 * `populate_mib` makes so much free memory of each node resident before the call returns, beside
 * what is in use, and keeps it until it is set lower: neither the purge thread nor
 * `near_malloc_trim` gives it back. What malloc returns while it lasts causes next to no page
 * faults, and what is freed fills it up again. A child of fork shares it until it writes.
 * docs/latency.md */
NEAR_API int near_set_option(const char* name, long value) NEAR_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
