/* The C interface of reclamation: which options are refused, the function for stalls, and guards of
 * signal handlers. From a C11 program that is linked as C. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "c_stack.h"

static atomic_long notes;

static void* allocate(size_t bytes, void* context) {
  EXPECT(context == &notes);
  atomic_fetch_add(&notes, (long)bytes);
  return malloc(bytes);
}
static void deallocate(void* block, size_t bytes, void* context) {
  EXPECT(context == &notes);
  atomic_fetch_sub(&notes, (long)bytes);
  free(block);
}

/* Notes of retired objects lie where the program says, and come back. */
static void use_own_memory(void) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.allocate = allocate;
  options.deallocate = deallocate;
  options.memory_context = &notes;
  domain = near_reclaim_create(&options);
  EXPECT(domain != NULL);
  push_and_pop(NULL);
  EXPECT(atomic_load(&notes) > 1000);
  near_reclaim_destroy(domain);
  EXPECT(atomic_load(&notes) == 0 && atomic_load(&live) == 0);
  cases++;
}

static void expect_refused(struct near_reclaim_options options) {
  errno = 0;
  EXPECT(near_reclaim_create(&options) == NULL && errno == EINVAL);
  cases++;
}

static void refuse_wrong_options(void) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = 99;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.policy = 99;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.when_full = 99;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.objects = 0;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.operations_between_checks = 0;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.records_per_check = 0;
  expect_refused(options);
  options = near_reclaim_defaults();
  options.allocate = allocate;
  expect_refused(options);
}

static atomic_int stalls;

static void note_stall(const struct near_reclaim_stall* stall, void* context) {
  EXPECT(stall->thread == *(const pid_t*)context);
  EXPECT(stall->milliseconds >= 20);
  atomic_fetch_add(&stalls, 1);
}

static void* work_until_a_stall(void* unused) {
  for (long i = 0; i < 100000000 && atomic_load(&stalls) == 0; i++) {
    push();
    pop();
  }
  return unused;
}

/* The thread that keeps the others from freeing is named. */
static void name_the_thread_that_stalls(void) {
  pid_t self = (pid_t)syscall(SYS_gettid);
  struct near_reclaim_options options = near_reclaim_defaults();
  options.batch_size = 10;
  options.on_stall = note_stall;
  options.context = &self;
  options.stall_ms = 20;
  domain = near_reclaim_create(&options);
  struct near_reclaim_guard guard;
  EXPECT(near_reclaim_pin(domain, &guard) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, work_until_a_stall, NULL) == 0);
  pthread_join(thread, NULL);
  EXPECT(atomic_load(&stalls) == 1);
  near_reclaim_unpin(&guard);
  while (atomic_load(&top) != NULL) pop();
  near_reclaim_barrier(domain);
  near_reclaim_destroy(domain);
  cases++;
}

static atomic_int handled;

static void look_in_handler(int unused) {
  (void)unused;
  struct near_reclaim_guard guard;
  near_reclaim_pin_in_handler(domain, &guard);
  const struct node* node = near_reclaim_protect(&guard, 1, &top);
  EXPECT(node == NULL || node->state == kAlive);
  near_reclaim_hold(&guard, 2, node);
  near_reclaim_unpin_in_handler(&guard);
  atomic_fetch_add(&handled, 1);
}

/* A handler reads what others pop, outside of a pin and inside. */
static void read_in_handlers(int scheme) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = scheme;
  options.policy = NEAR_RECLAIM_BATCH;
  options.batch_size = 10;
  domain = near_reclaim_create(&options);
  atomic_store(&handled, 0);
  struct sigaction action = {.sa_handler = look_in_handler};
  sigaction(SIGUSR1, &action, NULL);
  pop(); /* a first use */
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, push_and_pop, NULL) == 0);
  for (int i = 0; i < 500; i++) {
    raise(SIGUSR1);
    struct near_reclaim_guard guard;
    EXPECT(near_reclaim_pin(domain, &guard) == 0);
    const struct node* held = near_reclaim_protect(&guard, 1, &top);
    raise(SIGUSR1);
    EXPECT(held == NULL || held->state == kAlive);
    near_reclaim_unpin(&guard);
    near_reclaim_quiescent(domain);
  }
  near_reclaim_go_offline(domain);
  pthread_join(thread, NULL);
  near_reclaim_come_online(domain);
  EXPECT(atomic_load(&handled) == 1000);
  while (atomic_load(&top) != NULL) pop();
  near_reclaim_barrier(domain);
  EXPECT(atomic_load(&live) == 0);
  near_reclaim_destroy(domain);
  cases++;
}

int main(void) {
  refuse_wrong_options();
  use_own_memory();
  name_the_thread_that_stalls();
  for (int scheme = NEAR_RECLAIM_DEBRA; scheme <= NEAR_RECLAIM_CHECKPOINTS; scheme++) {
    if (scheme != NEAR_RECLAIM_LEAKY) read_in_handlers(scheme);
  }
  printf("cases: %d\n", cases);
  return 0;
}
