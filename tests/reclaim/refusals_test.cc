// What the system refuses: keys that the program has used up, and membarrier(2) by a filter that is
// installed while threads are pinned. Each test runs in a process of its own.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <latch>
#include <thread>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

template <class Scheme>
class RefusalsDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    count_cases();
  }
};
TYPED_TEST_SUITE(RefusalsDeathTest, EveryScheme);

// --- keys ---

template <class Scheme>
[[noreturn]] void come_and_go_without_keys() {
  pthread_key_t key = 0;
  int keys = 0;
  while (pthread_key_create(&key, nullptr) == 0) keys++;
  if (keys == 0) _exit(1);
  live_objects = 0;
  domain<Scheme> domain;
  for (int i = 0; i < 200; i++) std::thread([&] { domain.retire(new CountedObject); }).join();
  const statistics sums = domain.collect();
  domain.barrier();
  _exit(sums.records <= 2 && sums.threads <= 1 && live_objects == 0 ? 0 : 2);
}

TYPED_TEST(RefusalsDeathTest, ThreadsThatEndAreNoticedWhenAllKeysAreUsedUp) {
  EXPECT_EXIT(come_and_go_without_keys<TypeParam>(), testing::ExitedWithCode(0), "");
}

// --- membarrier ---

// From now on, in all threads.
bool refuse_membarrier() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

constexpr int kWritersThatAreReaders = 3;

// Threads exchange objects and read what others put there, before the filter and after it.
template <class Scheme>
[[noreturn]] void go_on_without_membarrier() {
  options settings;
  settings.batch_size = 64;
  live_objects = 0;
  int result = 0;
  {
    domain<Scheme> domain(settings);
    if (!domain.is_asymmetric()) _exit(0);
    std::atomic<CountedObject*> shared{new CountedObject};
    std::atomic<bool> stop{false};
    std::latch all(kWritersThatAreReaders + 1);
    Threads threads(kWritersThatAreReaders, [&](size_t) {
      auto guard = domain.pin();  // without a fence
      all.arrive_and_wait();
      while (!stop) {
        guard.repin();
        CountedObject* seen = guard.protect(0, shared);
        if (!seen->is_alive()) _exit(3);
        guard.retire(shared.exchange(new CountedObject));
      }
    });
    all.arrive_and_wait();
    const uint64_t freed_before = domain.collect().freed;
    if (!refuse_membarrier()) _exit(4);
    const uint64_t fences = domain.collect().heavy_fences;
    while (domain.collect().freed < freed_before + 2000 ||
           domain.collect().heavy_fences < fences + kWritersThatAreReaders + 1) {
      // Under the token, threads that come and go are those that execute fences.
      const auto passing = domain.attach();
      usleep(1000);
    }
    stop = true;
    threads.join();
    near::reclaim::domain<Scheme> later(settings);
    if (later.is_asymmetric()) result = 5;
    domain.retire(shared.exchange(nullptr));
    domain.barrier();
    if (live_objects != 0) result = 6;
  }
  _exit(result);
}

TYPED_TEST(RefusalsDeathTest, AFilterThatRefusesMembarrierLaterStopsNothing) {
  EXPECT_EXIT(
      {
        alarm(60);
        go_on_without_membarrier<TypeParam>();
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace near_test
