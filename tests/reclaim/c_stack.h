/* What the C tests of reclamation share: a stack of nodes, and a domain in which popped nodes are
 * retired. Thread-safety: any thread, except that one thread at a time changes the domain. */
#ifndef NEAR_TESTS_RECLAIM_C_STACK_H
#define NEAR_TESTS_RECLAIM_C_STACK_H

#include <nearmalloc/reclaim.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int cases = 0;

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

enum { kAlive = 0x5afe };

struct node {
  unsigned state;
  uint64_t birth;
  struct node* next;
};

static atomic_long live;

static struct node* make(void) {
  struct node* node = malloc(sizeof *node);
  node->state = kAlive;
  node->birth = near_reclaim_birth();
  atomic_fetch_add(&live, 1);
  return node;
}

static void destroy(void* object) {
  struct node* node = object;
  EXPECT(node->state == kAlive);
  node->state = 0;
  free(node);
  atomic_fetch_sub(&live, 1);
}

static struct near_reclaim_domain* domain;
static _Atomic(struct node*) top;

static void push(void) {
  struct node* node = make();
  node->next = atomic_load(&top);
  while (!atomic_compare_exchange_weak(&top, &node->next, node)) {
  }
}

static void pop(void) {
  struct near_reclaim_guard guard;
  EXPECT(near_reclaim_pin(domain, &guard) == 0);
  struct node* node;
  do {
    node = near_reclaim_protect(&guard, 0, &top);
  } while (node != NULL && !atomic_compare_exchange_strong(&top, &node, node->next));
  if (node != NULL) {
    EXPECT(node->state == kAlive);
    /* Refused, where there is a limit, it goes over that. */
    if (near_reclaim_try_retire_born(&guard, node, destroy, sizeof *node, node->birth) != 0)
      near_reclaim_retire_born(&guard, node, destroy, sizeof *node, node->birth);
  }
  near_reclaim_unpin(&guard);
}

static void* push_and_pop(void* unused) {
  for (int i = 0; i < 20000; i++) {
    push();
    pop();
  }
  return unused;
}

#endif
