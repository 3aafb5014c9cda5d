// QSBR: what is retired is freed after every thread that is attached has reported a quiescent
// state, and never before.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using Domain = domain<qsbr>;
using Handle = handle<qsbr>;

class Quiescence : public testing::Test {
 protected:
  void SetUp() override { live_objects = 0; }
  void TearDown() override {
    EXPECT_EQ(live_objects, 0);
    count_cases();
  }
};
using QuiescenceDeathTest = Quiescence;

options eager(policy how = policy::adaptive()) {
  options settings;
  settings.batch_size = 8;
  settings.reclaim = how;
  return settings;
}

// So many reports free what was retired before, if no other thread is in the way.
constexpr int kEnough = 8;

void report(Handle& handle, int times) {
  for (int i = 0; i < times; i++) handle.quiescent();
}

void retire_some(Handle& handle, int objects) {
  for (int i = 0; i < objects; i++) handle.retire(new CountedObject);
}

TEST_F(Quiescence, NothingIsFreedWithoutReports) {
  Domain domain(eager(policy::batch()));
  auto handle = domain.attach();
  retire_some(handle, 5000);
  EXPECT_EQ(live_objects, 5000);
  report(handle, kEnough);
  EXPECT_EQ(live_objects, 0);
  EXPECT_EQ(domain.collect().freed, 5000u);
}

TEST_F(Quiescence, AThreadThatReportsFreesAsItGoes) {
  Domain domain(eager());
  auto handle = domain.attach();
  for (int i = 0; i < 50'000; i++) {
    handle.retire(new CountedObject);
    handle.quiescent();
    ASSERT_LT(live_objects, 500);
  }
  domain.barrier();
}

TEST_F(Quiescence, APointerStaysValidUntilItsThreadReports) {
  Domain domain(eager(policy::batch()));
  std::atomic<CountedObject*> source = new CountedObject;
  auto reader = domain.attach();
  auto writer = domain.attach();
  const CountedObject* seen = reader.pin().protect(0, source);  // the guard ends here
  writer.retire(source.exchange(nullptr));
  retire_some(writer, 1000);
  report(writer, 100);
  EXPECT_EQ(live_objects, 1001);
  EXPECT_TRUE(seen->is_alive());
  reader.quiescent();
  report(writer, 1);
  reader.quiescent();
  EXPECT_TRUE(seen->is_alive());  // it may be freed after three epochs, not after two
  for (int i = 0; i < kEnough; i++) {
    reader.quiescent();
    writer.quiescent();
  }
  EXPECT_EQ(live_objects, 0);
}

TEST_F(Quiescence, RepinReports) {
  Domain domain(eager(policy::batch()));
  auto writer = domain.attach();
  auto reader = domain.attach();
  auto guard = reader.pin();
  retire_some(writer, 100);
  for (int i = 0; i < kEnough; i++) {
    guard.repin();
    writer.quiescent();
  }
  EXPECT_EQ(live_objects, 0);
}

TEST_F(Quiescence, AThreadThatLeavesOrIsOfflineHoldsNothingUp) {
  Domain domain(eager(policy::batch()));
  auto writer = domain.attach();
  auto idle = domain.attach();
  std::thread([&] { domain.retire(new CountedObject); }).join();
  {
    const offline_scope scope(idle);
    retire_some(writer, 100);
    report(writer, 2 * kEnough);  // enters an epoch in each, and takes over what was left
    EXPECT_EQ(live_objects, 0);
  }
  retire_some(writer, 100);
  report(writer, 2 * kEnough);
  EXPECT_EQ(live_objects, 100);  // it is back
}

TEST_F(Quiescence, AReportDoesNotAttachItsThread) {
  Domain domain(eager(policy::batch()));
  domain.quiescent();
  EXPECT_EQ(domain.reclaim(), 0u);
  EXPECT_EQ(domain.waiting(), 0u);
  EXPECT_EQ(domain.collect().threads, 0u);
  auto handle = domain.attach();
  retire_some(handle, 100);
  report(handle, kEnough);
  EXPECT_EQ(live_objects, 0);
}

TEST_F(Quiescence, SynchronizeWaitsForReports) {
  Domain domain;
  std::binary_semaphore attached{0};
  std::atomic<bool> has_reported{false};
  std::thread reader([&] {
    auto handle = domain.attach();
    attached.release();
    usleep(20'000);
    has_reported = true;
    for (int i = 0; i < 100'000 && has_reported; i++) {
      handle.quiescent();
      usleep(100);
    }
  });
  attached.acquire();
  domain.synchronize();
  EXPECT_TRUE(has_reported);
  has_reported = false;
  reader.join();
}

TEST_F(Quiescence, AThreadThatWaitsHoldsUpNeitherItselfNorOthers) {
  Domain domain(eager());
  const auto rounds = static_cast<int>(scaled(200));
  run_threads(3, [&](size_t) {
    auto handle = domain.attach();
    for (int i = 0; i < rounds; i++) {
      handle.retire(new CountedObject);
      domain.retire(new CountedObject);
      i % 2 == 0 ? domain.barrier() : domain.synchronize();
    }
  });
  domain.barrier();
}

// The record with which a thread waits, if the thread has only handles, does not stay.
TEST_F(Quiescence, AThreadThatHasWaitedHoldsNothingUp) {
  Domain domain(eager(policy::batch()));
  auto handle = domain.attach();
  domain.synchronize();
  domain.barrier();
  EXPECT_EQ(domain.collect().threads, 1u);
  retire_some(handle, 100);
  report(handle, kEnough);
  EXPECT_EQ(live_objects, 0);
}

// The thread that made the handle waits at the moment of the adoption, and is away.
TEST_F(Quiescence, AHandleThatIsAdoptedProtectsWhileItsMakerWaits) {
  std::atomic<bool> waits{false};
  options settings = eager(policy::batch());
  settings.stall_ms = 1;
  settings.context = &waits;
  settings.on_stall = [](const stall&, void* context) noexcept {
    *static_cast<std::atomic<bool>*>(context) = true;
  };
  Domain domain(settings);
  auto writer = domain.attach();
  std::optional<Handle> given;
  std::atomic<bool> is_done{false};
  std::thread maker([&] {
    given.emplace(domain.attach());
    domain.synchronize();
    is_done = true;
  });
  while (!waits) usleep(100);
  given->adopt();
  retire_some(writer, 100);
  report(writer, 10 * kEnough);
  EXPECT_EQ(live_objects, 100);
  while (!is_done) {
    given->quiescent();
    writer.quiescent();
  }
  maker.join();
  for (int i = 0; i < kEnough; i++) {
    given->quiescent();
    writer.quiescent();
  }
  EXPECT_EQ(live_objects, 0);
}

// Records change hands while the threads that used them before wait: each waits with its own.
TEST_F(Quiescence, ARecordBelongsToTheThreadThatUsesIt) {
  Domain domain(eager());
  const auto rounds = static_cast<int>(scaled(3000));
  run_threads(4, [&](size_t) {
    for (int i = 0; i < rounds; i++) {
      {
        auto handle = domain.attach();
        handle.retire(new CountedObject);
      }
      domain.synchronize();
    }
  });
  domain.barrier();
}

// A handle goes from thread to thread while the one that had it before may be waiting.
TEST_F(Quiescence, AHandleMayChangeHandsWhileThreadsWait) {
  Domain domain(eager());
  const auto rounds = static_cast<int>(scaled(3000));
  std::mutex lock;
  std::unique_ptr<Handle> given;
  const auto swap_with_given = [&](std::unique_ptr<Handle>& mine) {
    const std::lock_guard holder(lock);
    std::swap(mine, given);
    if (mine) mine->adopt();
  };
  run_threads(3, [&](size_t) {
    std::unique_ptr<Handle> mine;
    for (int i = 0; i < rounds; i++) {
      swap_with_given(mine);
      if (!mine) mine = std::make_unique<Handle>(domain.attach());
      mine->retire(new CountedObject);
      mine->quiescent();
      if (i % 4 == 0) domain.synchronize();
    }
    mine.reset();
    swap_with_given(mine);  // nobody is left to report through it
  });
  domain.barrier();
}

TEST_F(Quiescence, AThreadThatDoesNotReportIsNamed) {
  std::atomic<int> named{0};
  options settings = eager();
  settings.stall_ms = 20;
  settings.context = &named;
  settings.on_stall = [](const stall& what, void* context) noexcept {
    *static_cast<std::atomic<int>*>(context) = what.thread;
  };
  Domain domain(settings);
  std::binary_semaphore done{0};
  std::atomic<int> thread{0};
  std::thread idle([&] {
    auto handle = domain.attach();
    thread = gettid();
    done.acquire();
  });
  while (thread == 0) usleep(100);
  auto handle = domain.attach();
  for (int i = 0; i < 2000 && named == 0; i++) {
    retire_some(handle, 10);
    handle.quiescent();
    usleep(1000);
  }
  EXPECT_EQ(named, thread);
  done.release();
  idle.join();
}

// A reader keeps everything for a while. The threads that retire must wait for it.
TEST_F(Quiescence, ALimitInBytesWaitsInAReport) {
  constexpr int kLimit = 100;
  constexpr int kBurst = 10;
  constexpr int kMost = kLimit + 2 * kBurst;
  options settings = eager();
  settings.max_unreclaimed_bytes = kLimit * sizeof(CountedObject);
  settings.when_full = at_limit::block;
  Domain domain(settings);
  std::binary_semaphore attached{0};
  std::atomic<bool> is_done{false};
  std::thread reader([&] {
    auto handle = domain.attach();
    attached.release();
    usleep(20'000);
    while (!is_done) {
      handle.quiescent();
      usleep(50);
    }
  });
  attached.acquire();
  run_threads(2, [&](size_t) {
    auto handle = domain.attach();
    for (int i = 0; i < 200; i++) {
      retire_some(handle, kBurst);
      handle.quiescent();
      EXPECT_LE(live_objects, kMost);
    }
  });
  is_done = true;
  reader.join();
  const statistics sums = domain.collect();
  EXPECT_GE(sums.peak_unreclaimed, unsigned{kLimit - kBurst});
  EXPECT_LE(sums.peak_unreclaimed, unsigned{2 * kMost});  // threads are sampled at different times
  domain.barrier();
}

TEST_F(Quiescence, DeletersMayReport) {
  Domain domain(eager(policy::batch()));
  {
    auto handle = domain.attach();
    for (int i = 0; i < 100; i++) {
      handle.pin().retire_with(new CountedObject, [&](CountedObject* object) {
        handle.quiescent();
        handle.retire(new CountedObject);
        delete object;
      });
    }
    report(handle, kEnough);
    EXPECT_GE(domain.collect().freed, 100u);
  }
  domain.barrier();
}

TEST_F(Quiescence, AForkedChildGoesOnAlone) {
  Domain domain(eager(policy::batch()));
  auto handle = domain.attach();
  auto other = domain.attach();
  std::binary_semaphore attached{0};
  std::binary_semaphore done{0};
  std::thread idle([&] {
    auto its_own = domain.attach();
    attached.release();
    done.acquire();
  });
  attached.acquire();
  retire_some(handle, 100);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kEnough; i++) {
      handle.quiescent();
      other.quiescent();
    }
    _exit(live_objects == 0 ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(live_objects, 100);
  done.release();
  idle.join();
  domain.barrier();
}

// An object with a number of its own: it shows also that its memory was used again.
struct Numbered : CountedObject {
  Numbered() : number(++last) {}
  ~Numbered() { number = 0; }
  std::atomic<uint64_t> number;
  inline static std::atomic<uint64_t> last{0};
};

// An object that a thread has read, and its number then.
struct Kept {
  const Numbered* object = nullptr;
  uint64_t number = 0;
  bool is_there() const { return object == nullptr || object->number == number; }
};

class Replacing {
 public:
  Replacing() {
    for (auto& source : sources_) source = new Numbered;
  }
  ~Replacing() {
    for (auto& source : sources_) domain_.retire(source.load());
    domain_.barrier();
  }
  Domain& home() { return domain_; }

  // Returns how often an object was gone that the thread had read since its last report.
  unsigned work(unsigned rounds, unsigned thread) {
    auto handle = domain_.attach();
    unsigned faults = 0;
    Kept kept;
    for (unsigned i = 0; i < rounds; i++) {
      kept = read_or_replace(handle, i, sources_[(i * 7 + thread) % 4], kept, faults);
      if (i % 16 == thread || i % 512 == 100) kept = {};
      if (i % 16 == thread) handle.quiescent();
      if (i % 512 == 100) const offline_scope scope(handle);
      if (i % 4096 == 100) domain_.synchronize();
    }
    return faults;
  }

 private:
  static Kept read_or_replace(Handle& handle, unsigned round, std::atomic<Numbered*>& source,
                              const Kept& before, unsigned& faults) {
    auto guard = handle.pin();
    const Numbered* seen = guard.protect(0, source);
    const Kept kept{seen, seen->number};
    if (round % 3 == 0) guard.retire(source.exchange(new Numbered));
    if (!before.is_there() || !kept.is_there()) faults++;
    return before.object != nullptr ? before : kept;
  }

  Domain domain_{eager()};
  std::atomic<Numbered*> sources_[4];
};

// Threads read objects that others replace, report now and then, leave and come back.
TEST_F(Quiescence, WhatAThreadReadsLivesUntilItReports) {
  const auto rounds = static_cast<unsigned>(scaled(300'000));
  std::atomic<unsigned> faults{0};
  Replacing replacing;
  run_threads(
      4, [&](size_t thread) { faults += replacing.work(rounds, static_cast<unsigned>(thread)); });
  EXPECT_EQ(faults, 0u);
  EXPECT_GT(replacing.home().collect().freed, rounds / 8);
}

Domain* interrupted = nullptr;
std::atomic<CountedObject*> shown{nullptr};
std::atomic<unsigned> dead_seen{0};

void read_in_handler(int) {
  auto guard = interrupted->pin_in_handler();
  const CountedObject* seen = guard.protect(0, shown);
  for (int i = 0; i < 20; i++) {
    if (!seen->is_alive()) dead_seen++;
  }
}

// A handler interrupts reports, waits and offline scopes of a thread.
TEST_F(Quiescence, HandlersReadWhateverTheyInterrupt) {
  Domain domain(eager());
  interrupted = &domain;
  shown = new CountedObject;
  dead_seen = 0;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = read_in_handler;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  std::binary_semaphore attached{0};
  std::thread reader([&] {
    {
      const auto guard = domain.pin();
    }
    attached.release();
    while (!done) {
      domain.quiescent();
      domain.synchronize();
    }
  });
  attached.acquire();
  const auto rounds = static_cast<int>(scaled(3000));
  for (int i = 0; i < rounds; i++) {
    pthread_kill(reader.native_handle(), SIGUSR1);
    domain.retire(shown.exchange(new CountedObject));
    domain.quiescent();
  }
  domain.synchronize();
  done = true;
  const offline_scope scope(domain);
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(dead_seen, 0u);
  std::thread([&] {
    domain.retire(shown.load());
    domain.barrier();
  }).join();
}

TEST_F(QuiescenceDeathTest, MisuseIsSaidAndAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        Domain domain;
        auto guard = domain.pin();
        domain.quiescent();
      },
      "reports a quiescent state while it is pinned");
  EXPECT_DEATH(
      {
        Domain domain;
        auto handle = domain.attach();
        const offline_scope scope(handle);
        auto guard = handle.pin();
      },
      "inside its offline_scope");
  EXPECT_DEATH(
      {
        Domain domain;
        auto handle = domain.attach();
        const offline_scope scope(handle);
        handle.quiescent();
      },
      "offline");
}

}  // namespace
}  // namespace near_test
