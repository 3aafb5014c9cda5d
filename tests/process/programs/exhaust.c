/* Allocates until there is no more: argv[1] block size, argv[2] most bytes to take, argv[3]
 * "lower" to set RLIMIT_AS to argv[2] only after start. Prints how much it got, and how much
 * after freeing all of it.
 * Invariant: failure is NULL with ENOMEM, loses nothing, and freed memory is usable again. */
#include <sys/resource.h>

#include "common.h"

/* Blocks hang in a list made of themselves, so that the program needs no other memory. */
struct Link {
  struct Link* next;
  size_t number;
};

static size_t* last_word(struct Link* link, size_t size) {
  return (size_t*)((char*)link + (size - sizeof(size_t)) / sizeof(size_t) * sizeof(size_t));
}

static struct Link* take_all(size_t most, size_t size, size_t* taken) {
  struct Link* head = NULL;
  errno = 0;
  for (*taken = 0; *taken < most; ++*taken) {
    struct Link* link = malloc(size);
    if (link == NULL) {
      CHECK(errno == ENOMEM);
      break;
    }
    *last_word(link, size) = *taken;
    link->number = *taken;
    link->next = head;
    head = link;
  }
  return head;
}

/* Frees every `step`-th block; returns the list of the others. */
static struct Link* check_and_free(struct Link* head, size_t step, size_t size) {
  struct Link* kept = NULL;
  for (size_t i = 0; head != NULL; ++i) {
    struct Link* next = head->next;
    CHECK(*last_word(head, size) == head->number);
    if (i % step == 0) {
      free(head);
    } else {
      head->next = kept;
      kept = head;
    }
    head = next;
  }
  return kept;
}

static void expect_refusals(struct Link* kept, size_t refused) {
  CHECK(malloc(refused) == NULL && errno == ENOMEM);
  CHECK(calloc(refused, 1) == NULL && errno == ENOMEM);
  CHECK(aligned_alloc(4096, refused) == NULL && errno == ENOMEM);
  CHECK(realloc(kept, refused) == NULL && errno == ENOMEM);
}

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  const size_t size = strtoull(argv[1], NULL, 10);
  const size_t limit = strtoull(argv[2], NULL, 10);
  if (argc > 3) {
    churn(5, 1000);
    struct rlimit address_space;
    CHECK(getrlimit(RLIMIT_AS, &address_space) == 0);
    address_space.rlim_cur = limit;
    CHECK(setrlimit(RLIMIT_AS, &address_space) == 0);
  }
  size_t first = 0;
  size_t second = 0;
  struct Link* head = take_all(limit / size, size, &first);
  CHECK(first > 0);
  if (first < limit / size) expect_refusals(head, limit);
  head = check_and_free(head, 2, size);
  size_t again = 0;
  CHECK(check_and_free(take_all(first / 2, size, &again), 1, size) == NULL);
  CHECK(again >= first / 2 * 9 / 10);
  CHECK(check_and_free(head, 1, size) == NULL);
  CHECK(check_and_free(take_all(limit / size, size, &second), 1, size) == NULL);
  printf("%zu then %zu bytes\n", first * size, second * size);
  return 0;
}
