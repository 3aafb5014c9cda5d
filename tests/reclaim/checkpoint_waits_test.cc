// checkpoints: synchronize and barrier wait for what slots hold, whatever handlers do meanwhile,
// and report a thread that keeps them waiting.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "every_scheme.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

using Domain = domain<checkpoints>;
using Guard = Domain::guard_type;

options hasty_to_report() {
  options settings = hasty();
  settings.stall_ms = 20;
  return settings;
}

// Waits for ten seconds at most. Returns whether it is true.
template <class Condition>
bool wait_until(Condition is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Another thread holds an object in a slot from one section to the next, until it is told to end.
class HeldBySections {
 public:
  using AtEnd = std::function<void(Guard&, const CountedObject*)>;
  // `at_end(guard, object)` is the last that the thread does in its guard.
  explicit HeldBySections(Domain& domain, AtEnd at_end = nullptr)
      : domain_(domain), at_end_(std::move(at_end)) {
    auto other = domain.attach();
    while (!is_pinned_) std::this_thread::yield();
    while (sections_ == 0) other.pin().retire(new CountedObject);
  }
  ~HeldBySections() {
    holds_.join();
    if (ends_.joinable()) ends_.join();
  }
  HeldBySections(const HeldBySections&) = delete;
  HeldBySections& operator=(const HeldBySections&) = delete;

  // The thread ends when `before_end` has returned, which is called after ten more sections. So
  // what other threads wait for is the slot, and not only an epoch.
  void end_later(std::function<void()> before_end = [] {}) {
    const int begun = sections_;
    ends_ = std::thread([this, begun, before_end] {
      wait_until([&] { return sections_ >= begun + 10; });
      before_end();
      is_told_ = true;
    });
  }
  bool is_told_to_end() const { return is_told_; }

  CountedObject* const object = new CountedObject;

 private:
  void hold() {
    auto mine = domain_.attach();
    auto guard = mine.pin();
    guard.allow_checkpoints();
    is_pinned_ = true;
    while (!is_told_) {
      if (guard.checkpoint(object)) sections_++;
      std::this_thread::yield();
    }
    EXPECT_TRUE(object->is_alive());
    if (at_end_) at_end_(guard, object);
  }

  Domain& domain_;
  const AtEnd at_end_;
  std::atomic<bool> is_pinned_{false};
  std::atomic<bool> is_told_{false};
  std::atomic<int> sections_{0};
  std::thread ends_;
  std::thread holds_{[this] { hold(); }};
};

class CheckpointWaits : public testing::Test {
 protected:
  void SetUp() override {
    live_objects = 0;
    count_cases();
  }

  // Begins a section, and waits in it until the stall is reported.
  HeldBySections::AtEnd stall() {
    return [this](Guard& guard, const CountedObject* object) {
      const uint64_t before = domain_.collect().stalls;
      EXPECT_TRUE(wait_until([&] { return guard.checkpoint(object); }));
      EXPECT_TRUE(wait_until([&] { return domain_.collect().stalls > before; }));
    };
  }

  Domain domain_{hasty_to_report()};
};

// It frees what a slot has let go, and waits for the rest.
TEST_F(CheckpointWaits, ABarrierWaitsForASlot) {
  HeldBySections held(domain_);
  domain_.retire(held.object);
  held.end_later();
  domain_.barrier();
  EXPECT_TRUE(held.is_told_to_end());
  EXPECT_EQ(live_objects, 0);
}

TEST_F(CheckpointWaits, SynchronizeWaitsForASlot) {
  HeldBySections held(domain_);
  held.end_later();
  domain_.synchronize();
  EXPECT_TRUE(held.is_told_to_end());
  domain_.retire(held.object);
}

TEST_F(CheckpointWaits, ABarrierReportsAThreadThatStalls) {
  HeldBySections held(domain_, stall());
  domain_.retire(held.object);
  held.end_later();
  domain_.barrier();
  EXPECT_EQ(live_objects, 0);
}

TEST_F(CheckpointWaits, SynchronizeReportsAThreadThatStalls) {
  HeldBySections held(domain_, stall());
  held.end_later();
  domain_.synchronize();
  domain_.retire(held.object);
}

Domain* home_of_handler = nullptr;
std::atomic<int> handled{0};

// What a handler announced that interrupted the barrier does not hold the epoch: else the thread
// with the slot would never be asked to begin another section, in which it holds nothing.
TEST_F(CheckpointWaits, AHandlerMayPinWhileABarrierWaitsForASlot) {
  home_of_handler = &domain_;
  handled = 0;
  struct sigaction before = {};
  struct sigaction action = {};
  action.sa_handler = [](int) {
    {
      const auto guard = home_of_handler->pin_in_handler();
    }
    handled++;
  };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before);
  {
    HeldBySections held(domain_, [](Guard& guard, const CountedObject*) {
      EXPECT_TRUE(wait_until([&] { return guard.checkpoint(); })) << "the barrier hangs";
    });
    domain_.retire(held.object);
    const pthread_t waits = pthread_self();
    held.end_later([&] {
      pthread_kill(waits, SIGUSR1);
      EXPECT_TRUE(wait_until([] { return handled > 0; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    domain_.barrier();
    EXPECT_TRUE(held.is_told_to_end());
  }
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(live_objects, 0);
}

// The child does not have the thread that holds the object.
TEST_F(CheckpointWaits, AForkedChildFreesWhatASlotHeld) {
  HeldBySections held(domain_);
  domain_.retire(held.object);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    domain_.barrier();
    _exit(live_objects == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(held.object->is_alive());
  held.end_later();
  domain_.barrier();
  EXPECT_EQ(live_objects, 0);
}

}  // namespace
}  // namespace near_test
