// Measures the present speed of the machine: prints the seconds of a fixed work of about 10 ms.
//
// The work is a chain of dependent steps, each a multiplication and a load from 1 MiB that a first
// pass touched. It measures a core and its caches under the present load. It is cut into equal
// slices and the median slice counts, so that one interrupt does not look like a slow machine.
// Invariant: equal work on every run; no malloc is called.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kWords = 1 << 18, kSlices = 11, kSteps = 100000 };

static uint32_t words[kWords];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint32_t slice(uint32_t state) {
  for (int i = 0; i < kSteps; ++i) state = (state ^ words[state >> 14]) * 2654435761U + 1;
  return state;
}

static void sort(double* values, int count) {
  for (int i = 1; i < count; ++i) {
    const double value = values[i];
    int at = i;
    for (; at > 0 && values[at - 1] > value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
}

int main(void) {
  for (uint32_t i = 0; i < kWords; ++i) words[i] = i * 2246822519U;
  double seconds[kSlices];
  uint32_t state = slice(1);  // the first pass warms the caches and raises the core's frequency
  for (int i = 0; i < kSlices; ++i) {
    const double started = now();
    state = slice(state);
    seconds[i] = now() - started;
  }
  sort(seconds, kSlices);
  char text[64];
  const int length =
      snprintf(text, sizeof text, "%.9f %u\n", seconds[kSlices / 2] * (int)kSlices, state & 1);
  return write(STDOUT_FILENO, text, (size_t)length) == length ? 0 : 1;
}
