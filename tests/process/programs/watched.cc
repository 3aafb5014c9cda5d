// A correct program for tools like Valgrind: threads allocate, free others' blocks, and end. With
// the argument "race" threads write one word of a block without a lock. With "overrun" the program
// reads behind a block of operator new. Prints "ok".
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kRounds = 3;
constexpr int kThreads = 3;
constexpr unsigned kBlocks = 800;
constexpr unsigned kShared = 64;
constexpr size_t kLarge = 100000;

// Blocks of malloc, and blocks of operator new.
struct Blocks {
  char* of_malloc[kShared];
  char* of_new[kShared];
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Blocks shared;  // the lock guards both
unsigned next;
int* word;

size_t size_of(unsigned i) { return i % 100 == 0 ? kLarge + i : i * 37 % 3000 + 1; }

// Puts the block in the place of an old block, the result.
char* exchange(char* (&places)[kShared], char* block) {
  pthread_mutex_lock(&lock);
  char*& place = places[next++ % kShared];
  char* const old = place;
  place = block;
  pthread_mutex_unlock(&lock);
  return old;
}

void* work(void* given) {
  free(given);
  for (unsigned i = 0; i < kBlocks; i++) {
    const size_t size = size_of(i);
    auto* block = static_cast<char*>(malloc(size));
    memset(block, 1, size);
    if (i % 7 == 0) {
      block = static_cast<char*>(realloc(block, 2 * size));
      block[2 * size - 1] = 1;
    }
    free(exchange(shared.of_malloc, block));
    auto* other = static_cast<char*>(operator new(size));
    memset(other, 2, size);
    operator delete(exchange(shared.of_new, other));
  }
  return calloc(1, 100);
}

void* write_unlocked(void* unused) {
  *word += 1;
  return unused;
}

void run_threads(void* (*routine)(void*)) {
  pthread_t threads[kThreads];
  for (auto& thread : threads) {
    pthread_create(&thread, nullptr, routine, routine == work ? malloc(50) : nullptr);
  }
  for (auto thread : threads) {
    void* result = nullptr;
    pthread_join(thread, &result);
    free(result);
  }
}

void race() {
  word = static_cast<int*>(calloc(1, sizeof(int)));
  run_threads(write_unlocked);
  free(word);
}

int overrun() {
  auto* const block = static_cast<volatile char*>(operator new(24));
  const int behind = block[24];
  operator delete(const_cast<char*>(block));
  return behind;
}

}  // namespace

int main(int count, char** arguments) {
  for (int round = 0; round < kRounds; round++) run_threads(work);
  if (count > 1 && strcmp(arguments[1], "race") == 0) race();
  if (count > 1 && strcmp(arguments[1], "overrun") == 0) overrun();
  for (unsigned i = 0; i < kShared; i++) {
    free(shared.of_malloc[i]);
    operator delete(shared.of_new[i]);
  }
  puts("ok");
  return 0;
}
