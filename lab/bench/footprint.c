// Holds known amounts of memory for known times: `footprint KIB:MS ...` grows, shrinks, holds. A
// test compares the lab's measurement with what it prints: its largest amount, and the integral of
// the amount over time, by its own clock, because a busy machine prolongs sleeps.
// Invariant: exactly the first `held` bytes of the reserved memory are resident. It never calls
// malloc.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t reserved_bytes(int argc, char** argv) {
  size_t largest = 4096;
  for (int i = 1; i < argc; ++i) {
    const size_t bytes = strtoul(argv[i], NULL, 10) << 10;
    largest = bytes > largest ? bytes : largest;
  }
  return largest;
}

int main(int argc, char** argv) {
  const size_t reserved = reserved_bytes(argc, argv);
  char* const memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 1;
  madvise(memory, reserved, MADV_NOHUGEPAGE);  // a huge page would exceed the wanted amount
  size_t held = 0;
  double kib_seconds = 0;
  for (int i = 1; i < argc; ++i) {
    char* rest = NULL;
    const size_t wanted = strtoul(argv[i], &rest, 10) << 10;
    const long ms = *rest == ':' ? strtol(rest + 1, NULL, 10) : 0;
    const double started = now();
    if (wanted > held) memset(memory + held, 1, wanted - held);
    if (wanted < held) madvise(memory + wanted, held - wanted, MADV_DONTNEED);
    const double changed = now();
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    kib_seconds += (double)(held + wanted) / 2048 * (changed - started);
    kib_seconds += (double)wanted / 1024 * (now() - changed);
    held = wanted;
  }
  char text[128];
  const int length = snprintf(text, sizeof text, "{\"peak_kib\": %zu, \"kib_seconds\": %.6f}\n",
                              reserved / 1024, kib_seconds);
  return fwrite(text, 1, (size_t)length, stdout) == (size_t)length ? 0 : 1;
}
