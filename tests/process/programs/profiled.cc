// Allocates in ways that a profile must show, and prints how much. The functions' names are in the
// dynamic symbol table.
//   profiled         leaks, wastes, frees remotely, has a peak
//   profiled fork    the same in a child of fork that ends by exit, and in the parent
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

// A function of its own that is on the stack while malloc runs.
#define SITE extern "C" __attribute__((noinline, visibility("default")))

void* filled(void* block, size_t size) {
  memset(block, 1, size);
  return block;
}

}  // namespace

SITE void* plant_leak(size_t size) { return filled(malloc(size), size); }
SITE void* plant_waste(size_t size) { return filled(malloc(size), size); }
SITE void* plant_remote(size_t size) { return filled(malloc(size), size); }
SITE void* plant_peak(size_t size) { return filled(calloc(1, size), size); }
SITE void* plant_churn(size_t size) { return filled(operator new(size), size); }

namespace {

constexpr int kLeaks = 3000;
constexpr int kWastes = 150;
constexpr int kRemotes = 4000;
constexpr int kPeaks = 3000;
constexpr int kChurns = 60000;

void* kept[kLeaks + kWastes];
void* passed[kRemotes];
void* early[kPeaks];

void work() {
  for (void*& block : early) block = plant_peak(2000);
  for (void* block : early) free(block);
  for (int i = 0; i < kLeaks; i++) kept[i] = plant_leak(1000);
  for (int i = 0; i < kWastes; i++) kept[kLeaks + i] = plant_waste(33000);
  for (void*& block : passed) block = plant_remote(500);
  std::thread([] {
    for (void* block : passed) free(block);
  }).join();
  for (int i = 0; i < kChurns; i++) operator delete(plant_churn(64));
  for (int i = 0; i < kWastes; i++) free(kept[kLeaks + i]);
  std::printf("plant_leak %d\nplant_waste %d\nplant_remote %d\nplant_peak %d\nplant_churn %d\n",
              kLeaks * 1000, kWastes * 33000, kRemotes * 500, kPeaks * 2000, kChurns * 64);
}

}  // namespace

int main(int argc, char** argv) {
  work();
  if (argc < 2 || strcmp(argv[1], "fork") != 0) return 0;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
