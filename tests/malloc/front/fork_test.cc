// Forks, with the calling thread inside the allocator and outside of it: the handlers of fork,
// how a thread that is inside is served, and the child that has only this thread.
#include "front/fork.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "front/emergency.h"
#include "front/thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/threads.h"
#include "sync/inside.h"
#include "sync/mutex.h"

namespace near_test {
namespace {

using near::LockGuard;

constexpr size_t kSizes[] = {0, 1, 100, 5000, 40'000, 300'000};

// Demands that `live` returns true in a child.
template <typename Live>
void in_child(Live live) {
  EXPECT_EQ(run_in_child([&] { return live() ? 0 : 1; }), 0);
  count_cases();
}

// Takes, writes, resizes and frees blocks of all kinds.
bool use_memory() {
  for (const size_t size : kSizes) {
    auto* block = static_cast<unsigned char*>(near_malloc(size));
    if (block == nullptr || near_malloc_usable_size(block) < size) return false;
    memset(block, 7, size);
    block = static_cast<unsigned char*>(near_realloc(block, 2 * size + 1));
    if (block == nullptr || (size > 0 && (block[0] != 7 || block[size - 1] != 7))) return false;
    near_free(block);
    auto* zeroed = static_cast<unsigned char*>(near_calloc(1, size + 1));
    if (zeroed == nullptr || zeroed[0] != 0 || zeroed[size] != 0) return false;
    near_free(zeroed);
  }
  for (size_t alignment = 16; alignment <= 65536; alignment *= 2) {
    void* block = near_aligned_alloc(alignment, 100);
    if (block == nullptr || reinterpret_cast<uintptr_t>(block) % alignment != 0) return false;
    near_free(block);
  }
  return true;
}

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (NEAR_TSAN != 0) GTEST_SKIP() << "forks are not for TSan";
    near_free(near_malloc(1));
    ASSERT_EQ(near::inside_depth, 0);
  }
  void TearDown() override {
    if (NEAR_TSAN == 0) {
      EXPECT_EQ(near::inside_depth, 0);
    }
  }
};

TEST_F(ForkTest, AChildOfAThreadThatIsOutsideIsWhole) {
  in_child([] { return use_memory() && near_check() == 0 && !near::is_left_alone(); });
}

// Runs what a signal handler runs that interrupts a slow path.
TEST_F(ForkTest, AThreadThatHoldsALockForks) {
  for (near::Mutex* lock :
       {&near::current_heap->lock, &near::nodes[0].shard(0).lock, &near::start_lock}) {
    const LockGuard guard(*lock);
    in_child([] { return use_memory() && near::is_left_alone(); });
  }
  EXPECT_FALSE(near::is_left_alone());
  EXPECT_TRUE(use_memory());
  EXPECT_EQ(near_check(), 0u);
}

TEST_F(ForkTest, SoDoesTheChild) {
  const LockGuard guard(near::current_heap->lock);
  in_child([] { return run_in_child([] { return use_memory() ? 0 : 1; }) == 0 && use_memory(); });
}

TEST_F(ForkTest, WhatWasInterruptedGoesOnInTheChild) {
  near::current_heap->lock.lock();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) alarm(20);
  near::current_heap->lock.unlock();
  const bool good = use_memory() && near_check() == 0 && !near::is_left_alone();
  if (child == 0) _exit(good ? 0 : 1);
  EXPECT_TRUE(good);
  EXPECT_EQ(status_of(child), 0);
  count_cases();
}

// qemu-user does not survive forks of programs with threads.
bool is_emulated() { return std::getenv("NEAR_TEST_EMULATOR") != nullptr; }

// Tools that look from outside find the thread of each heap.
TEST_F(ForkTest, InTheChildOnlyTheForkingThreadHasItsHeap) {
  if (is_emulated()) GTEST_SKIP() << "forks beside threads are not for an emulator";
  const auto mine = reinterpret_cast<uintptr_t>(pthread_self());
  const near::Heap* theirs = nullptr;
  Worker other;
  other([&] {
    near_free(near_malloc(1));
    theirs = near::current_heap;
    EXPECT_EQ(theirs->registration.thread, reinterpret_cast<uintptr_t>(pthread_self()));
  });
  EXPECT_EQ(near::current_heap->registration.thread, mine);
  in_child([&] {
    return near::current_heap->registration.thread == mine && theirs->registration.thread == 0;
  });
  EXPECT_NE(theirs->registration.thread, 0u);
}

// As far as the child can tell, another thread holds a lock for ever.
TEST_F(ForkTest, AChildThatIsLeftAloneWaitsForNobody) {
  if (is_emulated()) GTEST_SKIP() << "forks beside threads are not for an emulator";
  Worker other;
  other([] { near::nodes[0].shard(0).lock.lock(); });
  {
    const LockGuard guard(near::current_heap->lock);
    in_child([] {
      near_stats stats;
      near_get_stats(&stats);
      near_malloc_trim(0);
      return use_memory();
    });
  }
  other([] { near::nodes[0].shard(0).lock.unlock(); });
}

// State that another thread held or had removed is whole once the interrupted call has ended.
TEST_F(ForkTest, WhenTheCallHasEndedTheChildIsWhole) {
  if (is_emulated()) GTEST_SKIP() << "forks beside threads are not for an emulator";
  Worker other;
  near::Heap* heap_of_other = nullptr;
  other([&] {
    near_free(near_malloc(1));
    heap_of_other = near::current_heap;
    near::start_lock.lock();
    heap_of_other->lock.lock();
    near::nodes[0].shard(0).lock.lock();
  });
  near::current_heap->lock.lock();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  near::current_heap->lock.unlock();
  if (child == 0) {
    alarm(20);
    const bool free = !near::nodes[0].shard(0).lock.is_held() && !heap_of_other->lock.is_held() &&
                      !near::start_lock.is_held();
    const bool parked = near::state_of_heap(heap_of_other->id()) == near::HeapState::parked;
    bool good = free && parked && !near::is_left_alone() && use_memory();
    on_cpu(0, [&] { good = good && use_memory() && near::current_heap == heap_of_other; });
    in_child([] { return use_memory() && !near::is_left_alone(); });
    _exit(good && near_check() == 0 && !HasFailure() ? 0 : 1);
  }
  other([&] {
    near::nodes[0].shard(0).lock.unlock();
    heap_of_other->lock.unlock();
    near::start_lock.unlock();
  });
  EXPECT_EQ(status_of(child), 0);
  count_cases();
}

// The child does not pass over a lock that another of its threads holds.
TEST_F(ForkTest, ThenItsThreadsWaitForEachOther) {
  near::current_heap->lock.lock();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  near::current_heap->lock.unlock();
  if (child == 0) {
    alarm(20);
    bool released = false;
    bool waited = false;
    near::nodes[0].shard(0).lock.lock();
    std::thread other([&] {
      const LockGuard guard(near::nodes[0].shard(0).lock);
      waited = released;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    released = true;
    near::nodes[0].shard(0).lock.unlock();
    other.join();
    _exit(waited ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  count_cases();
}

// A thread counts as inside from the moment it waits for a lock.
TEST_F(ForkTest, ALockIsCountedBeforeItIsTried) {
  near::Mutex lock(near::Rank::node);
  lock.lock();
  EXPECT_TRUE(near::is_inside());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_FALSE(near::is_inside());
  {
    const near::Inside inside;
    EXPECT_TRUE(near::is_inside());
  }
  EXPECT_FALSE(near::is_inside());
  count_cases(4);
}

// A handler that allocates there is wrong, but neither hangs nor damages anything.
TEST_F(ForkTest, WhoIsInsideIsServedApart) {
  void* normal = near_malloc(300'000);
  void* apart = nullptr;
  {
    const LockGuard guard(near::current_heap->lock);
    EXPECT_TRUE(use_memory());
    near_free(normal);  // not freed while this thread is inside
    apart = near_malloc(100'000);
  }
  ASSERT_TRUE(near::is_emergency(apart));
  EXPECT_EQ(near_malloc_usable_size(apart), 100'000u);
  memset(apart, 5, 100'000);
  auto* moved = static_cast<char*>(near_realloc(apart, 200'000));
  EXPECT_FALSE(near::is_emergency(moved));
  EXPECT_EQ(moved[99'999], 5);
  near_free(moved);
  near_free(apart);
  EXPECT_EQ(near_check(), 0u);
  near_free(normal);
  count_cases(4);
}

TEST_F(ForkTest, ThePoolHasAnEnd) {
  in_child([] {
    const LockGuard guard(near::current_heap->lock);
    errno = 0;
    for (int i = 0; i < 1000; i++) {
      if (near_malloc(100'000) == nullptr) return errno == ENOMEM && near_malloc(8) != nullptr;
    }
    return false;
  });
  in_child([] {
    const LockGuard guard(near::current_heap->lock);
    return near_malloc(SIZE_MAX / 2) == nullptr && near_aligned_alloc(1 << 20, 100) == nullptr;
  });
}

// The handlers that other libraries registered before ours run while this thread has all locks.
bool allocate_in_handlers = false;
int handled = 0;

void handle() {
  if (!allocate_in_handlers) return;
  handled++;
  if (!near::holds_all() || !use_memory()) handled = -1000;
}

// After those of the fake system, whose lock they may need.
__attribute__((constructor(102))) void register_first() { pthread_atfork(handle, handle, handle); }

TEST_F(ForkTest, OtherHandlersAllocateMeanwhile) {
  allocate_in_handlers = true;
  in_child([] { return handled == 2 && use_memory() && near_check() == 0; });
  EXPECT_EQ(handled, 2);
  if (!is_emulated()) {
    on_cpu(0, [] { in_child([] { return use_memory() && near_check() == 0; }); });
    EXPECT_EQ(handled, 4);
  }
  allocate_in_handlers = false;
  EXPECT_EQ(near_check(), 0u);
}

}  // namespace
}  // namespace near_test
