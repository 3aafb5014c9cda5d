/* The C interface of reclamation, from a C11 program that is linked as C: threads share a stack
 * whose nodes are read while others pop and retire them, under each scheme. */
#include <errno.h>
#include <nearmalloc/reclaim.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_stack.h"

enum { kThreads = 3 };

static long rounds;

/* Looks at the top under two guards, of which one is nested and has a slot of its own. */
static void look(void) {
  struct near_reclaim_guard outer;
  struct near_reclaim_guard inner;
  EXPECT(near_reclaim_pin(domain, &outer) == 0);
  const struct node* first = near_reclaim_protect(&outer, NEAR_RECLAIM_SLOTS - 1, &top);
  EXPECT(near_reclaim_pin(domain, &inner) == 0);
  const struct node* second = near_reclaim_protect(&inner, NEAR_RECLAIM_SLOTS - 1, &top);
  EXPECT(first == NULL || first->state == kAlive);
  EXPECT(second == NULL || second->state == kAlive);
  near_reclaim_unpin(&inner);
  EXPECT(first == NULL || first->state == kAlive);
  near_reclaim_hold(&outer, 0, NULL);
  (void)near_reclaim_still_holds(&outer);
  near_reclaim_unpin(&outer);
}

static void* work(void* unused) {
  for (long i = 0; i < rounds; i++) {
    push();
    look();
    pop();
    near_reclaim_quiescent(domain);
    if (i % 512 == 0) {
      EXPECT(near_reclaim_go_offline(domain) == 0);
      near_reclaim_come_online(domain);
    }
  }
  return unused;
}

/* Options other than the defaults, where a domain should work all the same. */
static void choose_rarely(struct near_reclaim_options* options) {
  options->operations_between_checks = 3;
  options->records_per_check = 2;
  options->skip_idle = 0;
  options->asymmetric = 0;
  options->hand_over_runs = 0;
  options->measure_time = 1;
}

static void use(int scheme, int policy, size_t limit) {
  struct near_reclaim_options options = near_reclaim_defaults();
  const bool is_rare = policy == NEAR_RECLAIM_AMORTIZED;
  if (is_rare) choose_rarely(&options);
  options.scheme = scheme;
  options.policy = policy;
  options.nanoseconds = 1000;
  options.max_unreclaimed_bytes = limit;
  options.when_full = limit != 0 ? NEAR_RECLAIM_BLOCK : NEAR_RECLAIM_HELP;
  domain = near_reclaim_create(&options);
  EXPECT(domain != NULL);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) EXPECT(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  while (atomic_load(&top) != NULL) pop();

  struct near_reclaim_statistics sums;
  near_reclaim_collect(domain, &sums);
  EXPECT(sums.retired == (uint64_t)(kThreads * rounds));
  EXPECT(sums.retired == sums.freed + sums.lost + sums.unreclaimed);
  const bool is_leaky = scheme == NEAR_RECLAIM_LEAKY;
  const bool has_slots =
      scheme == NEAR_RECLAIM_HAZARD_POINTERS || scheme == NEAR_RECLAIM_PING_EPOCHS;
  EXPECT((sums.bound != 0) == has_slots);
  EXPECT(sums.unreclaimed_bytes == sums.unreclaimed * sizeof(struct node));
  near_reclaim_free_some(domain, 10);
  const bool has_eras = scheme == NEAR_RECLAIM_IBR || scheme == NEAR_RECLAIM_HYALINE;
  const bool waits = scheme != NEAR_RECLAIM_HAZARD_POINTERS && !has_eras && !is_leaky;
  errno = 0;
  EXPECT(near_reclaim_synchronize(domain) == (waits ? 0 : -1));
  EXPECT(waits || errno == ENOTSUP);
  near_reclaim_barrier(domain);
  EXPECT(is_leaky || atomic_load(&live) == 0);
  near_reclaim_collect(domain, &sums);
  EXPECT(is_leaky || (sums.freeing_ns != 0) == is_rare);
  near_reclaim_destroy(domain);
  cases++;
  atomic_store(&live, 0);
}

/* Under a guard of the thread itself nothing can be freed; NULL means free. */
static void refuse_beyond_the_limit(void) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.max_unreclaimed_bytes = 1000;
  domain = near_reclaim_create(&options);
  struct near_reclaim_guard guard;
  EXPECT(near_reclaim_pin(domain, &guard) == 0);
  for (int i = 0; i < 10; i++) {
    EXPECT(near_reclaim_try_retire(&guard, malloc(100), NULL, 100) == 0);
  }
  void* kept = malloc(100);
  EXPECT(near_reclaim_try_retire(&guard, kept, NULL, 100) == -1 && errno == EAGAIN);
  EXPECT(near_reclaim_try_retire_born(&guard, kept, NULL, 100, near_reclaim_birth()) == -1);
  near_reclaim_unpin(&guard);
  near_reclaim_barrier(domain);
  EXPECT(near_reclaim_pin(domain, &guard) == 0);
  EXPECT(near_reclaim_try_retire_born(&guard, kept, NULL, 100, near_reclaim_birth()) == 0);
  near_reclaim_unpin(&guard);
  near_reclaim_destroy(domain);
  cases++;
}

/* A reader that stalls keeps what lived when it read, and nothing that was born later. */
static void keep_little_while_a_reader_stalls(enum near_reclaim_scheme scheme) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = scheme;
  options.policy = NEAR_RECLAIM_BATCH;
  options.batch_size = 100;
  domain = near_reclaim_create(&options);
  push();
  struct near_reclaim_guard reader;
  EXPECT(near_reclaim_pin(domain, &reader) == 0);
  const struct node* held = near_reclaim_protect(&reader, 0, &top);
  near_reclaim_hold(&reader, 0, held);
  EXPECT(near_reclaim_still_holds(&reader) == 1);
  pop(); /* what it holds */
  pthread_t thread;
  const long kept_rounds = rounds;
  rounds = 5000;
  EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
  pthread_join(thread, NULL);
  rounds = kept_rounds;
  EXPECT(held->state == kAlive);
  EXPECT(near_reclaim_still_holds(&reader) == 0);
  EXPECT(atomic_load(&live) < 1000);
  near_reclaim_unpin(&reader);
  while (atomic_load(&top) != NULL) pop();
  near_reclaim_barrier(domain);
  EXPECT(atomic_load(&live) == 0);
  near_reclaim_destroy(domain);
  cases++;
}

/* A walk that holds one node lets all others be freed, and that one as soon as it ends. */
static void free_all_but_the_place_of_a_walk(void) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = NEAR_RECLAIM_CHECKPOINTS;
  options.policy = NEAR_RECLAIM_BATCH;
  options.batch_size = 100;
  domain = near_reclaim_create(&options);
  push();
  struct near_reclaim_guard walk;
  EXPECT(near_reclaim_pin(domain, &walk) == 0);
  const struct node* place = near_reclaim_protect(&walk, 0, &top);
  const void* held[] = {place};
  EXPECT(near_reclaim_checkpoint(&walk, held, 1) == 0);
  pop(); /* the place */
  EXPECT(near_reclaim_checkpoint(&walk, NULL, 0) == 0);
  const long kept_rounds = rounds;
  rounds = 500;
  int sections = 0;
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_join(thread, NULL);
    struct near_reclaim_guard inner;
    EXPECT(near_reclaim_pin(domain, &inner) == 0);
    EXPECT(near_reclaim_checkpoint(&inner, held, 1) == 0);
    EXPECT(near_reclaim_checkpoint(&walk, held, 1) == 0);
    near_reclaim_unpin(&inner);
    sections += near_reclaim_checkpoint(&walk, held, 1);
    EXPECT(place->state == kAlive);
  }
  rounds = kept_rounds;
  EXPECT(sections >= 10);
  EXPECT(atomic_load(&live) < 5000);
  near_reclaim_unpin(&walk);
  near_reclaim_barrier(domain);
  EXPECT(atomic_load(&live) == 0);
  near_reclaim_destroy(domain);
  cases++;
}

/* Threads that free nothing themselves; then a round without the thread. */
static void free_in_the_background(int scheme) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = scheme;
  options.policy = NEAR_RECLAIM_MANUAL;
  domain = near_reclaim_create(&options);
  EXPECT(near_reclaim_start_background(domain) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, push_and_pop, NULL) == 0);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2000 && atomic_load(&live) > 0; i++) {
    usleep(10000);
  }
  EXPECT(atomic_load(&live) == 0);
  near_reclaim_stop_background(domain);
  near_reclaim_stop_background(domain);
  push();
  pop();
  size_t freed = 0;
  for (int i = 0; i < 100; i++) {
    near_reclaim_quiescent(domain);
    freed += near_reclaim_all(domain);
  }
  EXPECT(freed == 1);
  EXPECT(near_reclaim_start_background(domain) == 0);
  near_reclaim_destroy(domain);
  cases++;
}

/* Calls that concern what a thread did before do not make it a user of the domain. */
static void stay_unattached(int scheme) {
  struct near_reclaim_options options = near_reclaim_defaults();
  options.scheme = scheme;
  domain = near_reclaim_create(&options);
  near_reclaim_quiescent(domain);
  EXPECT(near_reclaim_free_some(domain, 10) == 0);
  near_reclaim_come_online(domain);
  struct near_reclaim_statistics sums;
  near_reclaim_collect(domain, &sums);
  EXPECT(sums.threads == 0);
  near_reclaim_destroy(domain);
  cases++;
}

/* Misuse aborts. */
static void abort_on_misuse(void) {
  const pid_t child = fork();
  if (child == 0) {
    fclose(stderr);
    struct near_reclaim_options options = near_reclaim_defaults();
    domain = near_reclaim_create(&options);
    struct near_reclaim_guard guard;
    near_reclaim_pin(domain, &guard);
    near_reclaim_barrier(domain);
    _exit(0);
  }
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  cases++;
}

/* With an argument the leaky scheme is used, too. */
int main(int count, char** words) {
  (void)words;
  const char* scale = getenv("NEAR_TEST_SCALE");
  rounds = (long)(20000 * (scale != NULL ? atof(scale) : 1)) + 1;
  for (int scheme = NEAR_RECLAIM_DEBRA; scheme <= NEAR_RECLAIM_CHECKPOINTS; scheme++) {
    if (scheme == NEAR_RECLAIM_LEAKY) continue;
    for (int policy = NEAR_RECLAIM_ADAPTIVE; policy <= NEAR_RECLAIM_MANUAL; policy++) {
      use(scheme, policy, 0);
    }
    use(scheme, NEAR_RECLAIM_ADAPTIVE, 64 * sizeof(struct node));
  }
  if (count > 1) use(NEAR_RECLAIM_LEAKY, NEAR_RECLAIM_ADAPTIVE, 0);
  refuse_beyond_the_limit();
  keep_little_while_a_reader_stalls(NEAR_RECLAIM_IBR);
  keep_little_while_a_reader_stalls(NEAR_RECLAIM_HYALINE);
  free_all_but_the_place_of_a_walk();
  for (int scheme = NEAR_RECLAIM_DEBRA; scheme <= NEAR_RECLAIM_CHECKPOINTS; scheme++) {
    if (scheme != NEAR_RECLAIM_LEAKY) free_in_the_background(scheme);
  }
  stay_unattached(NEAR_RECLAIM_QSBR);
  stay_unattached(NEAR_RECLAIM_DEBRA);
  abort_on_misuse();
  printf("cases: %d\n", cases);
  return 0;
}
