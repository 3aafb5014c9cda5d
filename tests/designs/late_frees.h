// Threads whose only calls are frees in the last round of destructors, after which none runs.
// Thread-safety: only the thread that runs the test uses it.
#pragma once

#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>

#include <thread>
#include <vector>

#include "base/compiler.h"
#include "support/cases.h"

namespace near_test {

class LateFrees {
 public:
  using Free = void (*)(void* block);

  explicit LateFrees(Free give) : give_(give) {
    EXPECT_EQ(pthread_key_create(&key_, on_thread_exit), 0);
  }
  ~LateFrees() { pthread_key_delete(key_); }
  LateFrees(const LateFrees&) = delete;
  LateFrees& operator=(const LateFrees&) = delete;

  // Runs such a thread.
  void operator()(const std::vector<void*>& blocks) {
    blocks_ = blocks;
    rounds_ = 0;
    std::thread([this] { EXPECT_EQ(pthread_setspecific(key_, this), 0); }).join();
    EXPECT_EQ(rounds_, kLastRound) << "the frees were not the last thing it did";
    count_cases();
  }

 private:
  // TSan ends its own record of a thread in the last round; the round before is too late, too, for
  // a design that waits for several rounds.
  static constexpr int kLastRound = PTHREAD_DESTRUCTOR_ITERATIONS - (NEAR_TSAN ? 1 : 0);

  static void on_thread_exit(void* value) {
    auto* self = static_cast<LateFrees*>(value);
    if (++self->rounds_ < kLastRound) {
      pthread_setspecific(self->key_, self);
      return;
    }
    for (void* block : self->blocks_) self->give_(block);
  }

  Free give_;
  pthread_key_t key_ = 0;
  std::vector<void*> blocks_;
  int rounds_ = 0;
};

// Expects that `count` does not rise with the number of such threads; `allocate` gives the blocks.
template <typename Allocate, typename Count>
void expect_nothing_left_by_late_frees(Allocate allocate, LateFrees::Free give, Count count) {
  constexpr int kThreads = 1000;
  LateFrees late(give);
  late({allocate(), allocate()});
  const auto before = count();
  for (int i = 0; i < kThreads; i++) late({allocate(), allocate()});
  EXPECT_EQ(count(), before) << "after " << kThreads << " threads";
}

}  // namespace near_test
