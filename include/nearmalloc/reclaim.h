/* Safe memory reclamation for C: objects that were unlinked from a concurrent structure are
 * destroyed when no thread can hold a pointer to them any more.
 *
 *   struct near_reclaim_options options = near_reclaim_defaults();
 *   struct near_reclaim_domain* domain = near_reclaim_create(&options);
 *
 *   reader   struct near_reclaim_guard guard;
 *            near_reclaim_pin(domain, &guard);
 *            struct node* node = near_reclaim_protect(&guard, 0, &head);
 *            ... use node ...
 *            near_reclaim_unpin(&guard);
 *   writer   unlink the node, then near_reclaim_retire(&guard, node, NULL, sizeof *node);
 *
 * The functions are those of nearmalloc/reclaim/domain.hpp, which is the manual: its rules, its
 * table of misuse, and what it says of fork, process exit and signal handlers hold here. A thread
 * needs no registration; it leaves its domains when it ends. Link libnearreclaim; it needs libc
 * alone. The structures (trees, maps, lists) are C++ templates and are not part of this.
 *
 * Thread-safety: any thread may call any function at any time, except near_reclaim_destroy. A guard
 * belongs to the thread that pinned it.
 */
#ifndef NEARMALLOC_RECLAIM_H
#define NEARMALLOC_RECLAIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct near_reclaim_domain;

/* reclaim/README.md helps to choose. */
enum near_reclaim_scheme {
  NEAR_RECLAIM_DEBRA,           /* epochs: everything read under a guard stays */
  NEAR_RECLAIM_TOKEN,           /* a token on a ring of threads: the same */
  NEAR_RECLAIM_HAZARD_POINTERS, /* robust: what `protect` returned stays */
  NEAR_RECLAIM_PING_EPOCHS,     /* robust: the same */
  NEAR_RECLAIM_LEAKY,           /* nothing is freed: for measurements */
  NEAR_RECLAIM_QSBR,            /* threads say when they hold nothing: near_reclaim_quiescent */
  NEAR_RECLAIM_IBR, /* robust: a stalled reader keeps nothing that was born later: _retire_born */
  NEAR_RECLAIM_HYALINE,    /* as NEAR_RECLAIM_IBR; freed by the thread that lets go last */
  NEAR_RECLAIM_CHECKPOINTS /* as NEAR_RECLAIM_DEBRA, but a long walk lets epochs end:
                              near_reclaim_checkpoint */
};

/* When a thread frees what is safe: nearmalloc/reclaim/policy.hpp. */
enum near_reclaim_policy {
  NEAR_RECLAIM_ADAPTIVE,
  NEAR_RECLAIM_BATCH,
  NEAR_RECLAIM_AMORTIZED,
  NEAR_RECLAIM_BUDGET,
  NEAR_RECLAIM_MANUAL
};

/* What a thread does that exceeds max_unreclaimed_bytes. */
enum near_reclaim_at_limit { NEAR_RECLAIM_HELP, NEAR_RECLAIM_BLOCK };

/* A thread that keeps the objects of all threads from being freed. */
struct near_reclaim_stall {
  int32_t thread;        /* its kernel thread number, as in /proc/self/task */
  uint32_t record;       /* its place in the domain */
  uint64_t epoch;        /* the domain's epoch, or round of the token, now */
  uint32_t milliseconds; /* since the stall was noticed */
};

struct near_timeline; /* nearmalloc/reclaim/timeline.h */

/* nearmalloc/reclaim/options.hpp says what each means. */
struct near_reclaim_options {
  int scheme;           /* an enum near_reclaim_scheme */
  int policy;           /* an enum near_reclaim_policy */
  uint32_t objects;     /* amortized, adaptive: freed each time; 1 or more */
  uint32_t every;       /* once in so many operations; 0: the policy's default */
  uint32_t nanoseconds; /* budget: time for freeing, each time */
  size_t batch_size;
  size_t max_unreclaimed_bytes;                            /* 0: no limit */
  int when_full;                                           /* an enum near_reclaim_at_limit */
  uint32_t operations_between_checks;                      /* 1 or more */
  uint32_t records_per_check;                              /* 1 or more */
  int skip_idle, asymmetric, hand_over_runs, measure_time; /* 0: no */
  /* Called by a thread that has found, for `stall_ms` milliseconds, that another one stalls; once
   * for each stall. It must not use the domain. NULL: nothing is called. */
  void (*on_stall)(const struct near_reclaim_stall* stall, void* context);
  void* context;
  uint32_t stall_ms;
  /* nearmalloc/reclaim/limbo_memory.hpp: where the notes of retired objects lie. NULL: malloc; then
   * both are NULL. */
  void* (*allocate)(size_t bytes, void* memory_context);
  void (*deallocate)(void* block, size_t bytes, void* memory_context);
  void* memory_context;
  struct near_timeline* record_to; /* must outlive the domain; NULL: nothing is recorded */
};

struct near_reclaim_statistics {
  uint64_t retired, freed, lost, unreclaimed; /* objects */
  uint64_t unreclaimed_bytes;
  uint64_t over_limit; /* objects that exceeded max_unreclaimed_bytes */
  uint64_t bound;      /* of unreclaimed objects; 0: none */
  uint64_t epochs, stalls;
  uint32_t threads;
  uint64_t peak_unreclaimed, longest_run; /* objects: nearmalloc/reclaim/options.hpp */
  uint64_t freeing_ns;                    /* time spent freeing, if measure_time is not 0 */
  uint64_t heavy_fences, looks;
};

/* A thread's stay in a domain. Its members are private. */
struct near_reclaim_guard {
  struct near_reclaim_domain* domain;
  void* record;
  uint32_t slots[3];
  uint32_t was_outside;
};

/* The slots of a guard are 0 .. NEAR_RECLAIM_SLOTS - 1. */
#define NEAR_RECLAIM_SLOTS 16

/* DEBRA, adaptive, without a limit. */
struct near_reclaim_options near_reclaim_defaults(void);

/* NULL with errno: EINVAL, a value is out of range; ENOMEM. */
struct near_reclaim_domain* near_reclaim_create(const struct near_reclaim_options* options);

/* Destroys every object that waits. Aborts if a thread is pinned. */
void near_reclaim_destroy(struct near_reclaim_domain* domain);

/* Begins a stay; stays nest. Returns 0, or -1 with errno ENOMEM, at a thread's first use only. */
int near_reclaim_pin(struct near_reclaim_domain* domain, struct near_reclaim_guard* guard);

/* Ends it. Under NEAR_RECLAIM_DEBRA, _QSBR and _TOKEN, guards may end in any order. */
void near_reclaim_unpin(struct near_reclaim_guard* guard);

/* For a signal handler, of a thread that has used the domain before; aborts otherwise. In between
 * the handler may call near_reclaim_protect and near_reclaim_hold of this guard, and
 * near_reclaim_collect. nearmalloc/reclaim/handler_guard.hpp has the rules. Both keep errno. */
void near_reclaim_pin_in_handler(struct near_reclaim_domain* domain,
                                 struct near_reclaim_guard* guard);
void near_reclaim_unpin_in_handler(struct near_reclaim_guard* guard);

/* The value of the atomic pointer at `source` (_Atomic(T*)), whose object stays valid until the
 * slot is used again or the guard ends. */
void* near_reclaim_protect(struct near_reclaim_guard* guard, unsigned slot, const void* source);

/* Puts `object` (NULL: nothing) into the slot: it is protected if the caller finds, afterwards,
 * that it was not unlinked yet, and (NEAR_RECLAIM_IBR, NEAR_RECLAIM_HYALINE) that
 * near_reclaim_still_holds is true after that. Does nothing where everything stays. */
void near_reclaim_hold(struct near_reclaim_guard* guard, unsigned slot, const void* object);

/* NEAR_RECLAIM_IBR, NEAR_RECLAIM_HYALINE: 0 if the last near_reclaim_hold came too late, and the
 * caller has to begin anew. 1 under other schemes. */
int near_reclaim_still_holds(const struct near_reclaim_guard* guard);

/* For a walk under NEAR_RECLAIM_CHECKPOINTS, once in 64 steps or so; costs one load if no thread
 * waits. 1: a thread that frees waits for this guard, or will; of what was read under the guard,
 * only the objects held[0 .. count - 1] may be used. They are at most NEAR_RECLAIM_SLOTS, and each
 * is an address that may be retired, or NULL. First find out whether such an object is still in its
 * structure: if it is, it is as if it had been read just now; if not, do not follow its pointers,
 * and hold it again only at the same place in `held`. 0: nothing has changed; always so under other
 * schemes, and while another guard of the thread is open. May call `destroy` functions. */
int near_reclaim_checkpoint(struct near_reclaim_guard* guard, const void* const* held,
                            unsigned count);

/* The era in which an object is made: note it before the object is published, and pass it to
 * near_reclaim_retire_born. Of the process: it holds in every domain. */
uint64_t near_reclaim_birth(void);

/* Calls destroy(object), or free(object) if `destroy` is NULL, when no thread can hold the object
 * any more. `bytes`: what it counts in max_unreclaimed_bytes; 0 is allowed. `destroy` may use the
 * domain, but not wait for it. Without memory, the object is leaked and counted as lost. */
void near_reclaim_retire(struct near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                         size_t bytes);

/* As near_reclaim_retire, of an object that was made in the era `birth`. Under NEAR_RECLAIM_IBR
 * and NEAR_RECLAIM_HYALINE a reader that stalled before does not keep it; without a birth, every
 * reader does that was pinned when the object was retired. Other schemes ignore it. */
void near_reclaim_retire_born(struct near_reclaim_guard* guard, void* object,
                              void (*destroy)(void*), size_t bytes, uint64_t birth);

/* As near_reclaim_retire, unless that would exceed max_unreclaimed_bytes: then returns -1 with
 * errno EAGAIN, and the object is still the caller's. Else returns 0. */
int near_reclaim_try_retire(struct near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                            size_t bytes);

/* As near_reclaim_try_retire, of an object that was made in the era `birth`. */
int near_reclaim_try_retire_born(struct near_reclaim_guard* guard, void* object,
                                 void (*destroy)(void*), size_t bytes, uint64_t birth);

/* Waits until every guard that is open now has ended. Aborts while pinned. Returns 0, or -1 with
 * errno ENOTSUP: hazard pointers, IBR, Hyaline and the leaky scheme have no grace periods. */
int near_reclaim_synchronize(struct near_reclaim_domain* domain);

/* Waits until every object retired before is destroyed. Aborts while pinned, and in `destroy`. */
void near_reclaim_barrier(struct near_reclaim_domain* domain);

/* Frees up to `most` safe objects that this thread retired; returns how many. */
size_t near_reclaim_free_some(struct near_reclaim_domain* domain, size_t most);

/* Starts a thread that frees what all threads retire; nearmalloc/reclaim/background.hpp says what
 * it does, and what holds in the child of a fork. Returns 0, or -1 with errno as of pthread_create.
 * Aborts if the domain has such a thread. */
int near_reclaim_start_background(struct near_reclaim_domain* domain);

/* Ends that thread, and waits for it. Does nothing if there is none. near_reclaim_destroy does it,
 * too. One thread at a time may call these two. */
void near_reclaim_stop_background(struct near_reclaim_domain* domain);

/* Does what that thread does in one round; returns how many objects were freed. Aborts while
 * pinned, and in `destroy`. */
size_t near_reclaim_all(struct near_reclaim_domain* domain);

/* For NEAR_RECLAIM_QSBR: says that the calling thread holds no pointer that it read in this domain,
 * and frees. Every thread that has used the domain has to call it now and then, or be offline.
 * Aborts while pinned. Does nothing under other schemes, or in a thread that has not used the
 * domain. */
void near_reclaim_quiescent(struct near_reclaim_domain* domain);

/* The thread will not use the domain for a while: no thread waits for it, and others take over what
 * it retired. Between the two calls, which must not be nested, it must not use the domain. Returns
 * 0, or -1 with errno ENOMEM, at a thread's first use only. */
int near_reclaim_go_offline(struct near_reclaim_domain* domain);
void near_reclaim_come_online(struct near_reclaim_domain* domain);

/* Sums over all threads, as they are while other threads change them. */
void near_reclaim_collect(const struct near_reclaim_domain* domain,
                          struct near_reclaim_statistics* sums);

#ifdef __cplusplus
}
#endif

#endif
