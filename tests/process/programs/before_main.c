/* malloc before main: in .preinit_array, in constructors of every priority, and their frees at
 * the end.
 * Invariant: blocks made before main hold their bytes until the last destructor. */
#include "common.h"

enum { kBlocks = 500 };
static unsigned char* early[3][kBlocks];

static void fill_row(int row) {
  for (size_t i = 0; i < kBlocks; ++i) early[row][i] = take(i * (size_t)(row + 1) * 7 + 1);
}

static void empty_row(int row) {
  for (size_t i = 0; i < kBlocks; ++i) give_back(early[row][i], i * (size_t)(row + 1) * 7 + 1);
}

static void run_first(void) { fill_row(0); }
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = run_first;
__attribute__((constructor(101))) static void run_second(void) { fill_row(1); }
__attribute__((constructor)) static void run_third(void) { fill_row(2); }
__attribute__((destructor(101))) static void run_last(void) { empty_row(0); }
__attribute__((destructor)) static void run_near_the_end(void) { empty_row(2); }

int main(void) {
  int filled = 0;
  for (int row = 0; row < 3; ++row) {
    for (int i = 0; i < kBlocks; ++i) filled += early[row][i] != NULL;
  }
  churn(1, 1000);
  empty_row(1);
  printf("%d blocks from before main\n", filled);
  return 0;
}
