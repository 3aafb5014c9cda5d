// The tests of the matrix; see matrix.h.
//
// Invariant: after each run of threads retired = freed + unreclaimed + lost; after a barrier all
// that was retired is freed, or lost where the scheme leaks on purpose; and when structure and
// domain are gone, no block that came from `new` meanwhile is live except the lost ones.
#include "matrix.h"

#include <array>

#include "checked_heap.h"
#include "set_checks.h"
#include "support/cases.h"

namespace near_test {
namespace {

struct NamedPolicy {
  const char* name;
  reclaim::policy policy;
};

constexpr std::array kPolicies = {
    NamedPolicy{"batch", reclaim::policy::batch()},
    NamedPolicy{"amortized", reclaim::policy::amortized(2)},
    NamedPolicy{"adaptive", reclaim::policy::adaptive()},
    NamedPolicy{"budget", reclaim::policy::budget(2000, 4)},
    NamedPolicy{"manual", reclaim::policy::manual()},
};

// Small batches, so that much is freed while threads run.
reclaim::options options_of(const reclaim::policy& policy) {
  reclaim::options options;
  options.reclaim = policy;
  options.batch_size = 8;
  return options;
}

using Body = void (*)(AnySet& set, int64_t keys);

// Returns how many objects were lost.
uint64_t run(const Cell& cell, const reclaim::policy& policy, Body body) {
  const std::unique_ptr<MatrixTrial> trial = cell.make(options_of(policy));
  body(trial->set(), cell.keys);
  const reclaim::statistics before = trial->collect();
  EXPECT_EQ(before.retired, before.freed + before.unreclaimed + before.lost);
  trial->barrier();
  const reclaim::statistics after = trial->collect();
  EXPECT_EQ(after.retired, before.retired);
  EXPECT_EQ(after.freed, cell.leaks ? 0 : after.retired);
  EXPECT_EQ(after.lost, cell.leaks ? after.retired : 0);
  EXPECT_EQ(after.unreclaimed, 0u);
  return after.lost;
}

// Runs `body` once for each policy, and looks at what it left behind.
void for_each_policy(const Cell& cell, Body body) {
  for (const NamedPolicy& each : kPolicies) {
    SCOPED_TRACE(each.name);
    (void)seed();  // prints it once: not among the blocks that are counted
    const size_t before = has_checked_heap() ? live_blocks() : 0;
    const uint64_t lost = run(cell, each.policy, body);
    if (testing::Test::HasFailure()) return;  // whose messages are blocks too
    if (has_checked_heap()) {
      drain_quarantine();
      EXPECT_EQ(live_blocks(), before + lost);
    }
  }
}

TEST_P(Matrix, BehavesAsAMapInOneThread) {
  for_each_policy(GetParam(), [](AnySet& set, int64_t keys) {
    check_sequential(set, {.keys = keys, .operations = scaled(1500)}, 50);
  });
}

TEST_P(Matrix, KeepsItsSumsUnderUpdates) {
  for_each_policy(GetParam(), [](AnySet& set, int64_t keys) {
    check_concurrent(set, {.keys = keys, .operations = scaled(3000)});
  });
}

TEST_P(Matrix, KeepsItsSumsWhenThreadsMeetOnFewKeys) {
  for_each_policy(GetParam(), [](AnySet& set, int64_t) {
    check_concurrent(set, {.threads = 6, .keys = 5, .operations = scaled(2000)});
  });
}

TEST_P(Matrix, FindsWhatIsThereWhileOthersUpdate) {
  for_each_policy(GetParam(), [](AnySet& set, int64_t keys) {
    check_concurrent(set, {.keys = keys, .operations = scaled(3000), .finds = 40, .ranges = true});
  });
}

TEST_P(Matrix, SurvivesThreadsThatComeAndGo) {
  for_each_policy(GetParam(), [](AnySet& set, int64_t keys) {
    const SetLoad load{.threads = 3, .keys = keys, .operations = 60, .finds = 20};
    check_concurrent(set, load, static_cast<unsigned>(scaled(12)));
  });
}

}  // namespace
}  // namespace near_test
