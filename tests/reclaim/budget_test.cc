// The limit of bytes that wait to be freed: options::max_unreclaimed_bytes.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"
#include "test_access.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using Clock = std::chrono::steady_clock;

constexpr size_t kLargest = 4096;
constexpr size_t kLimit = size_t{1} << 20;

std::atomic<int64_t> waiting_bytes{0};

// An object that is counted from just before its retirement until it is freed.
struct Sized {
  size_t bytes;
};

void destroy(void* object) noexcept {
  waiting_bytes -= static_cast<int64_t>(static_cast<Sized*>(object)->bytes);
  std::free(object);
}

Sized* make(size_t bytes) {
  auto* const object = static_cast<Sized*>(std::malloc(bytes));
  object->bytes = bytes;
  return object;
}

template <class Guard>
void retire(Guard& guard, Sized* object) {
  const size_t bytes = object->bytes;
  waiting_bytes += static_cast<int64_t>(bytes);
  guard.retire(object, destroy, bytes);
}

// A reader that is inside one operation, with objects in its slots, until this ends.
template <class Scheme>
class StalledReader {
 public:
  explicit StalledReader(domain<Scheme>& domain) {
    for (auto& each : sources_) each = make(kLargest);
    thread_ = std::thread([this, &domain] {
      auto guard = domain.pin();
      for (unsigned i = 0; i < kSlots; i++) guard.protect(i, sources_[i]);
      is_inside_ = true;
      is_inside_.notify_all();
      may_leave_.wait(false);
      for (auto& each : seen_) EXPECT_EQ(each->bytes, kLargest);
    });
    is_inside_.wait(false);
    for (unsigned i = 0; i < kSlots; i++) seen_[i] = sources_[i].exchange(nullptr);
    auto guard = domain.pin();
    for (Sized* each : seen_) retire(guard, each);
  }
  ~StalledReader() { leave(); }
  StalledReader(const StalledReader&) = delete;
  StalledReader& operator=(const StalledReader&) = delete;

  void leave() {
    may_leave_ = true;
    may_leave_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  static constexpr unsigned kSlots = 4;
  std::atomic<Sized*> sources_[kSlots];
  Sized* seen_[kSlots] = {};
  std::atomic<bool> is_inside_{false};
  std::atomic<bool> may_leave_{false};
  std::thread thread_;
};

options limited(at_limit when_full, size_t limit = kLimit) {
  options settings;
  settings.max_unreclaimed_bytes = limit;
  settings.when_full = when_full;
  return settings;
}

// `threads` threads retire objects of many sizes for a while. Returns the most bytes that waited,
// as this test counts them.
template <class Scheme>
int64_t peak_of(domain<Scheme>& domain, size_t threads, std::chrono::milliseconds time) {
  std::atomic<int64_t> peak{0};
  const auto end = Clock::now() + time;
  run_threads(threads, [&](size_t number) {
    auto handle = domain.attach();
    int64_t most = 0;
    for (size_t i = number; Clock::now() < end; i++) {
      auto guard = handle.pin();
      for (size_t k = 0; k < i % 7; k++) {
        retire(guard, make(std::max(sizeof(Sized), (i * 2'654'435'761u >> 7) % kLargest)));
        most = std::max(most, waiting_bytes.load());
      }
    }
    int64_t before = peak;
    while (before < most && !peak.compare_exchange_weak(before, most)) {
    }
  });
  count_cases();
  return peak;
}

// A thread counts an object here before it retires it, and retires it before it pays.
int64_t bound(size_t threads) {
  return static_cast<int64_t>(kLimit + (threads + 1) * 2 * kLargest);
}

class BudgetTestBase : public testing::Test {
 protected:
  BudgetTestBase() { waiting_bytes = 0; }
  ~BudgetTestBase() override { EXPECT_EQ(waiting_bytes, 0); }
};

template <class Scheme>
class BudgetTest : public BudgetTestBase {};
TYPED_TEST_SUITE(BudgetTest, EveryScheme);

template <class Scheme>
class RobustBudgetTest : public BudgetTestBase {};
using RobustSchemes = testing::Types<hazard_pointers, ping_epochs>;
TYPED_TEST_SUITE(RobustBudgetTest, RobustSchemes);

template <class Scheme>
class EpochBudgetTest : public BudgetTestBase {};
using EpochSchemes =
    testing::Types<debra<announce::before_free>, debra<announce::after_free>, checkpoints,
                   token<pass::before_free>, token<pass::while_freeing>>;
TYPED_TEST_SUITE(EpochBudgetTest, EpochSchemes);

// A minute in the soak test.
std::chrono::milliseconds stall_time() { return std::chrono::milliseconds(scaled(500)); }

// The limit holds while a reader stalls in the middle of an operation; other policies of freeing
// make no difference.
TYPED_TEST(RobustBudgetTest, HoldsWhileAReaderStalls) {
  for (const policy how : {policy::adaptive(), policy::manual()}) {
    options settings = limited(at_limit::block);
    settings.reclaim = how;
    domain<TypeParam> domain(settings);
    StalledReader<TypeParam> reader(domain);
    const int64_t peak = peak_of(domain, 3, stall_time());
    EXPECT_LE(peak, bound(4));
    EXPECT_EQ(domain.collect().over_limit, 0u);
    EXPECT_GT(domain.collect().looks, 0u);
  }
}

TYPED_TEST(RobustBudgetTest, HelpingSufficesWhileNoThreadIsInterruptedInRetire) {
  domain<TypeParam> domain(limited(at_limit::help));
  StalledReader<TypeParam> reader(domain);
  const int64_t peak = peak_of(domain, 1, stall_time() / 4);
  EXPECT_LE(peak, bound(2));
  EXPECT_EQ(domain.collect().over_limit, 0u);
}

// A thread that is attached and does nothing holds nearly all that may wait: others take it over.
template <class Scheme>
uint64_t over_limit_beside_an_idle_thread(at_limit when_full) {
  domain<Scheme> domain(limited(when_full));
  std::atomic<bool> may_end{false};
  std::atomic<bool> is_idle{false};
  std::thread idle([&] {
    for (size_t i = 0; i < kLimit * 9 / 10 / kLargest; i++) {
      auto guard = domain.pin();
      retire(guard, make(kLargest));
    }
    is_idle = true;
    is_idle.notify_all();
    may_end.wait(false);
  });
  is_idle.wait(false);
  EXPECT_LE(peak_of(domain, 1, std::chrono::milliseconds(10)), bound(2) + 14 * int64_t{kLargest});
  may_end = true;
  may_end.notify_all();
  idle.join();
  return domain.collect().over_limit;
}

TYPED_TEST(RobustBudgetTest, HelpingTakesOverWhatAnIdleThreadRetired) {
  EXPECT_EQ(over_limit_beside_an_idle_thread<TypeParam>(at_limit::help), 0u);
}

TYPED_TEST(BudgetTest, WaitingTakesOverWhatAnIdleThreadRetired) {
  over_limit_beside_an_idle_thread<TypeParam>(at_limit::block);
}

// Where no reader stalls, every scheme keeps the limit by waiting. A pin may retire six objects.
TYPED_TEST(BudgetTest, HoldsWhereThreadsWait) {
  domain<TypeParam> domain(limited(at_limit::block));
  const int64_t peak = peak_of(domain, 3, stall_time() / 2);
  EXPECT_LE(peak, bound(4) + static_cast<int64_t>(4 * 7 * kLargest));
}

TYPED_TEST(BudgetTest, CountsTheBytesThatWait) {
  options settings;
  settings.reclaim = policy::manual();
  domain<TypeParam> domain(settings);
  StalledReader<TypeParam> reader(domain);
  EXPECT_EQ(domain.collect().unreclaimed_bytes, 4 * kLargest);
  run_threads(2, [&](size_t) {
    auto guard = domain.pin();
    for (int i = 0; i < 100; i++) retire(guard, make(1000));
    for (int i = 0; i < 100; i++) guard.retire(new std::array<long, 2>{}, 24);
    for (int i = 0; i < 100; i++) guard.retire(new long);
  });
  const size_t expected = 4 * kLargest + 2 * 100 * (1000 + 24 + sizeof(long));
  EXPECT_EQ(domain.collect().unreclaimed_bytes, expected);
  reader.leave();
  domain.barrier();
  EXPECT_EQ(domain.collect().unreclaimed_bytes, 0u);
  count_cases();
}

// try_retire refuses, and the object stays the caller's.
TYPED_TEST(BudgetTest, TryRetireRefuses) {
  domain<TypeParam> domain(limited(at_limit::help, 100 * sizeof(CountedObject)));
  live_objects = 0;
  auto guard = domain.pin();
  std::atomic<CountedObject*> source{nullptr};
  std::vector<CountedObject*> kept;
  const bool keeps_all = decltype(guard)::protects_all || decltype(guard)::has_births;
  for (unsigned i = 0; i < 200; i++) {
    source = new CountedObject;
    CountedObject* object = guard.protect(i % 8, source);
    if (!guard.try_retire(object)) kept.push_back(object);
  }
  EXPECT_EQ(kept.size(), keeps_all ? 100u : 0u);
  EXPECT_LE(domain.collect().unreclaimed_bytes, 100 * sizeof(CountedObject));
  auto larger_than_all = std::make_unique<CountedObject>();
  EXPECT_FALSE(guard.try_retire(larger_than_all.get(), 101 * sizeof(CountedObject)));
  for (const CountedObject* each : kept) {
    EXPECT_TRUE(each->is_alive());
    delete each;
  }
  count_cases();
}

// Threads that collect credit do not take what was promised to the retirement that comes next.
TYPED_TEST(BudgetTest, NobodyCollectsWhatWasPromised) {
  domain<TypeParam> domain(limited(at_limit::help, 8 * kLargest));
  auto handle = domain.attach();
  impl::Record& record = impl::TestAccess::first_record(domain);
  {
    const impl::Promise promise(record, kLargest);
    ASSERT_TRUE(static_cast<bool>(promise));
    std::thread([&] {
      Sized* const all = make(8 * kLargest);
      EXPECT_FALSE(domain.try_retire(all, destroy, 8 * kLargest));
      std::free(all);
    }).join();
    EXPECT_GE(record.limbo.credit, static_cast<int64_t>(kLargest));
  }
  EXPECT_EQ(record.limbo.promised, 0);
  count_cases();
}

TYPED_TEST(BudgetTest, TryRetireNeverExceedsTheLimit) {
  domain<TypeParam> domain(limited(at_limit::help, 64 * kLargest));
  {
    StalledReader<TypeParam> reader(domain);
    run_threads(4, [&](size_t) {
      for (size_t i = 0; i < scaled(4'000); i++) {
        auto guard = domain.pin();
        Sized* const object = make(kLargest);
        waiting_bytes += kLargest;
        if (!guard.try_retire(object, destroy, kLargest)) destroy(object);
      }
    });
    EXPECT_EQ(domain.collect().over_limit, 0u);
    EXPECT_LE(domain.collect().unreclaimed_bytes, 64 * kLargest);
    count_cases();
  }
  domain.barrier();
}

// As in `HoldsWhereThreadsWait`, beside the handles of 200 threads that do nothing, where each pin
// retires a hundred objects.
TYPED_TEST(BudgetTest, HoldsBesideManyThatWait) {
  constexpr size_t kWaiting = 200;
  constexpr int64_t kRetired = 100;
  constexpr int64_t kBytes = 64;
  domain<TypeParam> domain(limited(at_limit::block));
  std::vector<typename near::reclaim::domain<TypeParam>::handle_type> waiting;
  for (size_t i = 0; i < kWaiting; i++) waiting.push_back(domain.attach());
  std::atomic<int64_t> peak{0};
  run_threads(2, [&](size_t) {
    auto handle = domain.attach();
    int64_t most = 0;
    const size_t operations = std::max<size_t>(scaled(1'000), 300);  // far more than the limit
    for (size_t i = 0; i < operations; i++) {
      auto guard = handle.pin();
      for (int64_t k = 0; k < kRetired; k++) retire(guard, make(kBytes));
      most = std::max(most, waiting_bytes.load());
    }
    int64_t before = peak;
    while (most > before && !peak.compare_exchange_weak(before, most)) continue;
  });
  EXPECT_LE(peak, bound(2) + 2 * kRetired * kBytes);
  domain.barrier();
  count_cases();
}

// While a reader stalls, the others go on over the limit, or wait until it leaves.
TYPED_TEST(EpochBudgetTest, AStalledReaderMakesThreadsExceedTheLimit) {
  domain<TypeParam> domain(limited(at_limit::help));
  {
    StalledReader<TypeParam> reader(domain);
    const auto end = Clock::now() + std::chrono::seconds(30);  // on a busy machine
    do {
      peak_of(domain, 2, std::chrono::milliseconds(50));
    } while (domain.collect().over_limit == 0 && Clock::now() < end);
    EXPECT_GT(domain.collect().over_limit, 0u);
    EXPECT_GT(domain.collect().unreclaimed_bytes, kLimit);
  }
  domain.barrier();
}

TYPED_TEST(EpochBudgetTest, AStalledReaderMakesThreadsWait) {
  domain<TypeParam> domain(limited(at_limit::block));
  StalledReader<TypeParam> reader(domain);
  std::atomic<bool> has_left{false};
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    while (waiting_bytes < 2 * static_cast<int64_t>(kLimit)) {
      if (waiting_bytes > static_cast<int64_t>(kLimit + 2 * kLargest) && !has_left) is_over = true;
      auto guard = domain.pin();
      if (has_left) break;
      retire(guard, make(kLargest));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(is_over);
  has_left = true;
  reader.leave();
  writer.join();
  EXPECT_LE(waiting_bytes, static_cast<int64_t>(kLimit));
  domain.barrier();
  count_cases();
}

// What deleters retire is counted, but no deleter waits.
template <class Scheme>
struct Doubled {
  explicit Doubled(domain<Scheme>& its_home, int its_depth) : home(its_home), depth(its_depth) {}
  ~Doubled() {
    if (depth > 0) home.retire(new Doubled(home, depth - 1), kLargest);
  }
  domain<Scheme>& home;
  int depth;
};

TYPED_TEST(BudgetTest, DeletersThatRetireDoNotWait) {
  domain<TypeParam> domain(limited(at_limit::block, 64 * kLargest));
  run_threads(2, [&](size_t) {
    for (int i = 0; i < 2000; i++) domain.retire(new Doubled<TypeParam>(domain, 3), kLargest);
  });
  for (int i = 0; i < 5; i++) domain.barrier();
  EXPECT_EQ(domain.collect().unreclaimed_bytes, 0u);
  count_cases();
}

// A thread that is pinned through another handle does not wait for itself.
TYPED_TEST(EpochBudgetTest, AThreadDoesNotWaitForItself) {
  domain<TypeParam> domain(limited(at_limit::block));
  auto first = domain.attach();
  auto second = domain.attach();
  {
    auto guard = first.pin();
    for (size_t i = 0; i < 3 * kLimit / kLargest; i++) {
      auto inner = second.pin();
      retire(inner, make(kLargest));
    }
  }
  EXPECT_GT(domain.collect().over_limit, 0u);
  count_cases();
}

// Threads come and go; their credit comes back.
TYPED_TEST(BudgetTest, ThreadsThatLeaveGiveTheirCreditBack) {
  domain<TypeParam> domain(limited(at_limit::help));
  for (int i = 0; i < 50; i++) {
    std::thread([&] {
      for (int k = 0; k < 20; k++) {
        auto guard = domain.pin();
        retire(guard, make(kLargest));
      }
    }).join();
  }
  domain.barrier();
  auto guard = domain.pin();
  EXPECT_TRUE(guard.try_retire(new char, kLimit * 9 / 10));
  count_cases();
}

}  // namespace
}  // namespace near_test
