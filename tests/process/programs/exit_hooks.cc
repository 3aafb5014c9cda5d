// Frees and allocations where a thread or the process ends: destructors of thread-local objects and
// of pthread keys in every round, atexit handlers, destructors of static objects, threads that
// never stop.
// Invariant: every block that was handed over is freed by the last hook that sees it.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "common.h"

namespace {

class Holder {
 public:
  explicit Holder(size_t size) : size_(size), block_(take(size)) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    give_back(block_, size_);
    churn(size_, 50);
    lengthen();
  }
  void lengthen() {
    text_ += "too long to be stored inside of the object, and longer with each call";
  }

 private:
  size_t size_;
  unsigned char* block_;
  std::string text_;
};

Holder static_holder(3000);
thread_local Holder thread_holder(700);

struct Rounds {
  pthread_key_t key;
  int left;
  unsigned char* block;
};

// Sets its key again until the last round of destructors, allocating and freeing each time.
void run_round(void* argument) {
  auto* rounds = static_cast<Rounds*>(argument);
  give_back(rounds->block, 1234);
  churn(static_cast<uint64_t>(rounds->left), 100);
  if (--rounds->left == 0) {
    std::free(rounds);
    return;
  }
  rounds->block = take(1234);
  pthread_setspecific(rounds->key, rounds);
}

void live(const std::vector<pthread_key_t>& keys) {
  thread_holder.lengthen();
  for (const pthread_key_t key : keys) {
    auto* rounds = static_cast<Rounds*>(std::malloc(sizeof(Rounds)));
    *rounds = {key, PTHREAD_DESTRUCTOR_ITERATIONS, take(1234)};
    pthread_setspecific(key, rounds);
  }
  churn(keys.size(), 300);
}

void* keep_allocating(void*) {
  for (uint64_t i = 0;; ++i) churn(i, 100);
}

unsigned char* for_atexit = nullptr;

}  // namespace

int main() {
  thread_holder.lengthen();
  std::vector<pthread_key_t> keys(20);
  for (pthread_key_t& key : keys) CHECK(pthread_key_create(&key, run_round) == 0);
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back(live, keys);
    for (std::thread& thread : threads) thread.join();
  }
  for_atexit = take(50'000);
  std::atexit([] {
    give_back(for_atexit, 50'000);
    churn(3, 500);
    std::puts("atexit");
  });
  // Other threads allocate while the process ends.
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, keep_allocating, nullptr) == 0);
    pthread_detach(thread);
  }
  std::puts("main ends");
  return 0;
}
