// Signals meet a thread at any instruction of a pin, an unpin, a retirement and of the freeing:
// what it protects stays, what its handler protects stays, and nothing is held for ever.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "every_scheme.h"
#include "single_step.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

// An object that shows that it was freed.
struct Thing {
  std::atomic<bool> lives{true};
  static void bury(void* object) noexcept {
    static_cast<Thing*>(object)->lives.store(false, std::memory_order_relaxed);
  }
  static void ignore(void*) noexcept {}
};

#if NEAR_TEST_STEPS

// A thread with two handles: one is interrupted, the other does what other threads would do.
template <class Scheme>
class Stage {
 public:
  Stage() {
    for (int i = 0; i < 200; i++) other_.retire(&source_, Thing::ignore);
  }

  // Unlinks and retires the object at `source`; then the other handle goes on for so long that the
  // object is freed if no guard holds it.
  void replace() {
    other_.retire(unlink(), Thing::bury);
    go_on(other_);
  }

  void go_on(handle<Scheme>& by) {
    const uint64_t looks = domain_.collect().looks;
    for (int i = 0; i < kLongEnough; i++) by.retire(&source_, Thing::ignore);
    // Under ibr the next look comes when what a guard held has grown by half.
    while (impl::needs_births<Scheme> && domain_.collect().looks < looks + 2) {
      by.retire(&source_, Thing::ignore);
    }
  }

  // A guard protects what is replaced meanwhile; returns that. `step` is of its begin and its end.
  template <class Pin>
  Thing* use(Pin pin, SingleStep* step = nullptr) {
    Thing* thing;
    {
      if (step != nullptr) step->go();
      auto guard = pin();
      thing = guard.protect(0, source_);
      if (step != nullptr) step->halt();
      EXPECT_TRUE(is_alive(thing));
      replace();
      EXPECT_TRUE(is_alive(thing));
      if (step != nullptr) step->go();
    }
    if (step != nullptr) step->halt();
    return thing;
  }

  // In an epoch that the interrupted thread has not seen, if there are epochs.
  Thing* use_in_handler(SingleStep* step = nullptr) {
    go_on(other_);
    return use([&] { return mine_.pin_in_handler(); }, step);
  }

  // A pin of the thread, interrupted after so many instructions. False: it was over before.
  template <class Action>
  bool pin_interrupted(long at, bool is_warm, Action action) {
    for (int i = 0; is_warm && i < 2; i++) (void)mine_.pin();
    SingleStep step(at, action);
    const Thing* thing = use([&] { return mine_.pin(); }, &step);
    go_on(other_);
    // Under hyaline the thread may have let go last; it frees at its next pin.
    if (Scheme::traits.scheme == impl::Scheme::batches) (void)mine_.pin();
    EXPECT_FALSE(is_alive(thing)) << "a guard was left behind";
    EXPECT_FALSE(testing::Test::HasFailure()) << "interrupted at instruction " << at;
    return step.has_acted();
  }

  // As above; what the thread then retires stays until a later reader lets go of it.
  template <class Action>
  bool retire_interrupted(long at, bool is_warm, Action action) {
    for (int i = 0; is_warm && i < 2; i++) (void)mine_.pin();
    SingleStep step(at, action);
    {
      std::unique_ptr<guard<Scheme>> reader;
      const Thing* thing;
      {
        step.go();
        auto guard = mine_.pin();
        step.halt();
        reader.reset(new near::reclaim::guard<Scheme>(other_.pin()));
        thing = reader->protect(0, source_);
        guard.retire(unlink(), Thing::bury);
      }
      go_on(mine_);
      EXPECT_TRUE(is_alive(thing)) << "interrupted at instruction " << at;
    }
    // So that no memory of an idle handle is returned where the next signal may come.
    go_on(mine_);
    go_on(other_);
    return step.has_acted();
  }

  handle<Scheme>& mine() { return mine_; }

 private:
  static constexpr int kLongEnough = Scheme::protects_all ? 100 : 220;
  static constexpr size_t kThings = 64;  // none is used again before it was freed

  Thing* unlink() {
    Thing& fresh = things_[next_++ % kThings];
    fresh.lives.store(true, std::memory_order_relaxed);
    return source_.exchange(&fresh);
  }

  static bool is_alive(const Thing* thing) { return thing->lives.load(std::memory_order_relaxed); }

  domain<Scheme> domain_{hasty()};
  handle<Scheme> mine_ = domain_.attach();
  handle<Scheme> other_ = domain_.attach();
  Thing things_[kThings];
  size_t next_ = 1;
  std::atomic<Thing*> source_{&things_[0]};
};

template <class Scheme>
struct SteppedSignalTest : testing::Test {
  // Every instruction of a short path, some of a long one. `interrupted(at, is_warm)`: false if the
  // code was shorter.
  template <class Interrupted>
  void at_each_instruction(Interrupted interrupted) {
    for (const bool is_warm : {false, true}) {
      bool acted = true;
      for (long at = 1; acted && !this->HasFailure(); at += at < 45 ? 1 : at / 6) {
        acted = interrupted(at, is_warm);
        count_cases();
      }
    }
  }

  Stage<Scheme> stage;
};
TYPED_TEST_SUITE(SteppedSignalTest, EveryScheme);

TYPED_TEST(SteppedSignalTest, AHandlersGuardMayComeAtAnyInstruction) {
  this->at_each_instruction([&](long at, bool is_warm) {
    return this->stage.pin_interrupted(at, is_warm, [&] { this->stage.use_in_handler(); });
  });
}

TYPED_TEST(SteppedSignalTest, SoMayAnOrdinaryOne) {
  const auto use = [&] { this->stage.use([&] { return this->stage.mine().pin(); }); };
  this->at_each_instruction(
      [&](long at, bool is_warm) { return this->stage.pin_interrupted(at, is_warm, use); });
}

TYPED_TEST(SteppedSignalTest, SoMayAHandlerInAHandler) {
  this->at_each_instruction([&](long at, bool is_warm) {
    return this->stage.pin_interrupted(at, is_warm, [&] {
      SingleStep step(at * 7 % 61 + 1, [&] { this->stage.use_in_handler(); });
      this->stage.use_in_handler(&step);
    });
  });
}

TYPED_TEST(SteppedSignalTest, WhatIsRetiredAfterwardsIsNotFreedTooSoon) {
  this->at_each_instruction([&](long at, bool is_warm) {
    return this->stage.retire_interrupted(at, is_warm, [&] { this->stage.use_in_handler(); });
  });
}

#endif

// Real signals, while threads allocate, retire and free.
template <class Scheme>
struct SignalTest : testing::Test {};
TYPED_TEST_SUITE(SignalTest, EveryScheme);

struct Node {
  static constexpr uint64_t kLives = 0x600d600d600d600d;
  ~Node() { mark.store(0, std::memory_order_relaxed); }
  std::atomic<uint64_t> mark{kLives};
};

template <class Scheme>
struct Storm {
  static inline domain<Scheme>* home = nullptr;
  static inline std::atomic<Node*> source{nullptr};
  static inline std::atomic<long> handled{0};
  static inline std::atomic<long> wrong{0};

  static bool is_wrong(const Node* node) {
    return node->mark.load(std::memory_order_relaxed) != Node::kLives;
  }

  static void on_signal(int) {
    auto guard = home->pin_in_handler();
    const Node* node = guard.protect(0, source);
    for (int i = 0; i < 200; i++) {
      if (is_wrong(node)) wrong++;
    }
    handled++;
  }

  static void replace() {
    auto guard = home->pin();
    guard.retire(source.exchange(new Node));
  }

  static void read() {
    auto guard = home->pin();
    const Node* node = guard.protect(0, source);
    const long before = handled.load(std::memory_order_relaxed);
    for (int i = 0; i < 50; i++) {
      if (is_wrong(node)) wrong++;
    }
    if (handled.load(std::memory_order_relaxed) != before && is_wrong(node)) wrong++;
  }
};

TYPED_TEST(SignalTest, HandlersPinWhileTheirThreadsReadAndRetire) {
  using Storm = Storm<TypeParam>;
  domain<TypeParam> domain(hasty());
  Storm::home = &domain;
  Storm::source = new Node;
  Storm::handled = 0;
  Storm::wrong = 0;
  struct sigaction before = {};
  struct sigaction action = {};
  action.sa_handler = Storm::on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> done{false};
  std::atomic<int> ready{0};
  const auto work = [&](bool retires) {
    (void)domain.pin();
    ready++;
    while (!done) retires ? Storm::replace() : Storm::read();
  };
  std::thread threads[] = {std::thread(work, false), std::thread(work, true)};
  while (ready < 2) std::this_thread::yield();
  // 50 ms, and on a busy machine until enough handlers have run.
  const auto elapsed = [start = std::chrono::steady_clock::now()] {
    return std::chrono::steady_clock::now() - start;
  };
  while (Storm::wrong == 0 && elapsed() < std::chrono::seconds(30) &&
         (elapsed() < std::chrono::milliseconds(50) || Storm::handled <= 20)) {
    for (std::thread& each : threads) pthread_kill(each.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  done = true;
  for (std::thread& each : threads) each.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(Storm::wrong, 0);
  EXPECT_GT(Storm::handled, 20);
  count_cases(static_cast<size_t>(Storm::handled.load()));
  delete Storm::source.exchange(nullptr);
}

TEST(SignalDeathTest, WhatAHandlerMayNotDoIsRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        domain<debra<>> unused;
        (void)unused.pin_in_handler();
      },
      "a signal handler pins in a domain that its thread has not used");
  EXPECT_DEATH(
      {
        domain<token<>> home;
        auto handle = home.attach();
        const offline_scope<token<>> away(handle);
        (void)handle.pin_in_handler();
      },
      "inside its offline_scope");
  count_cases(2);
}

#if NEAR_TEST_STEPS

// The code, interrupted at each instruction by a handler that retires.
template <class Code>
void retire_in_handlers(handle<debra<>>& handle, Code code) {
  static int object;
  bool acted = true;
  for (long at = 1; acted; at++) {
    SingleStep step(at, [&] { handle.retire(&object, Thing::ignore); });
    step.go();
    code();
    step.halt();
    acted = step.has_acted();
  }
}

TEST(SignalDeathTest, ARetirementInAPinOrInARetirementIsRefused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        domain<debra<>> domain(hasty());
        auto handle = domain.attach();
        retire_in_handlers(handle, [&] { (void)handle.pin(); });
      },
      "a signal handler retires inside a pin");
  EXPECT_DEATH(
      {
        domain<debra<>> domain;
        auto handle = domain.attach();
        auto guard = handle.pin();
        retire_in_handlers(handle, [&] { guard.retire(&guard, Thing::ignore); });
      },
      "a signal handler retires inside a retirement");
  count_cases(2);
}

#endif

}  // namespace
}  // namespace near_test
