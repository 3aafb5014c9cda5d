// The suite that every structure passes under every scheme and every reclaim policy.
//
// Invariant: after each run of threads retired = freed + unreclaimed + lost; after a barrier all
// that was retired is freed, or lost where the scheme leaks on purpose; and when structure and
// domain are gone, no block that came from `new` meanwhile is live but the lost ones.
// Who may touch it: the thread that runs the test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <type_traits>

#include "checked_heap.h"
#include "nearmalloc/reclaim/domain.hpp"
#include "nearmalloc/reclaim/schemes.hpp"
#include "set_checks.h"
#include "support/cases.h"

namespace near_test {

namespace reclaim = near::reclaim;

// A row of the matrix. `Structure` has a template `set<Domain>` and says for how many keys it is.
template <class Structure, class Scheme>
struct Cell {
  using scheme = Scheme;
  using domain = reclaim::domain<Scheme>;
  using set = typename Structure::template set<domain>;
  static constexpr int64_t kKeys = Structure::kKeys;
  static constexpr bool kLeaks = std::is_same_v<Scheme, reclaim::leaky>;
};

template <class Structure>
using Schemes = testing::Types<Cell<Structure, reclaim::leaky>,
                               Cell<Structure, reclaim::debra<reclaim::announce::before_free>>,
                               Cell<Structure, reclaim::debra<reclaim::announce::after_free>>,
                               Cell<Structure, reclaim::token<reclaim::pass::after_free>>,
                               Cell<Structure, reclaim::token<reclaim::pass::before_free>>,
                               Cell<Structure, reclaim::token<reclaim::pass::while_freeing>>,
                               Cell<Structure, reclaim::hazard_pointers>,
                               Cell<Structure, reclaim::ping_epochs>>;

struct NamedPolicy {
  const char* name;
  reclaim::policy policy;
};

inline constexpr std::array kPolicies = {
    NamedPolicy{"batch", reclaim::policy::batch()},
    NamedPolicy{"amortized", reclaim::policy::amortized(2)},
    NamedPolicy{"adaptive", reclaim::policy::adaptive()},
    NamedPolicy{"budget", reclaim::policy::budget(2000, 4)},
    NamedPolicy{"manual", reclaim::policy::manual()},
};

// Small batches, so that much is freed while threads run.
inline reclaim::options options_of(const reclaim::policy& policy) {
  reclaim::options options;
  options.reclaim = policy;
  options.batch_size = 8;
  return options;
}

template <class Cell>
class Matrix : public testing::Test {
 protected:
  using Domain = typename Cell::domain;
  using Set = typename Cell::set;

  // Runs `body(set, domain)` once for each policy, and looks at what it left behind.
  template <class Body>
  void for_each_policy(Body body) {
    for (const NamedPolicy& each : kPolicies) {
      SCOPED_TRACE(each.name);
      (void)seed();  // prints it once: not among the blocks that are counted
      const size_t before = has_checked_heap() ? live_blocks() : 0;
      const uint64_t lost = run(each.policy, body);
      if (this->HasFailure()) return;  // whose messages are blocks too
      if (has_checked_heap()) {
        drain_quarantine();
        EXPECT_EQ(live_blocks(), before + lost);
      }
    }
  }

 private:
  template <class Body>
  static uint64_t run(const reclaim::policy& policy, Body body) {
    Domain domain(options_of(policy));
    Set set(domain);
    body(set, domain);
    const reclaim::statistics before = domain.collect();
    EXPECT_EQ(before.retired, before.freed + before.unreclaimed + before.lost);
    domain.barrier();
    const reclaim::statistics after = domain.collect();
    EXPECT_EQ(after.retired, before.retired);
    EXPECT_EQ(after.freed, Cell::kLeaks ? 0 : after.retired);
    EXPECT_EQ(after.lost, Cell::kLeaks ? after.retired : 0);
    EXPECT_EQ(after.unreclaimed, 0u);
    return after.lost;
  }
};

TYPED_TEST_SUITE_P(Matrix);

TYPED_TEST_P(Matrix, BehavesAsAMapInOneThread) {
  this->for_each_policy([](auto& set, auto& domain) {
    check_sequential(set, domain, {.keys = TypeParam::kKeys, .operations = scaled(1500)}, 50);
  });
}

TYPED_TEST_P(Matrix, KeepsItsSumsUnderUpdates) {
  this->for_each_policy([](auto& set, auto& domain) {
    check_concurrent(set, domain, {.keys = TypeParam::kKeys, .operations = scaled(3000)});
  });
}

TYPED_TEST_P(Matrix, KeepsItsSumsWhenThreadsMeetOnFewKeys) {
  this->for_each_policy([](auto& set, auto& domain) {
    check_concurrent(set, domain, {.threads = 6, .keys = 5, .operations = scaled(2000)});
  });
}

TYPED_TEST_P(Matrix, FindsWhatIsThereWhileOthersUpdate) {
  this->for_each_policy([](auto& set, auto& domain) {
    const SetLoad load{
        .keys = TypeParam::kKeys, .operations = scaled(3000), .finds = 40, .ranges = true};
    check_concurrent(set, domain, load);
  });
}

TYPED_TEST_P(Matrix, SurvivesThreadsThatComeAndGo) {
  this->for_each_policy([](auto& set, auto& domain) {
    const SetLoad load{.threads = 3, .keys = TypeParam::kKeys, .operations = 60, .finds = 20};
    check_concurrent(set, domain, load, static_cast<unsigned>(scaled(12)));
  });
}

REGISTER_TYPED_TEST_SUITE_P(Matrix, BehavesAsAMapInOneThread, KeepsItsSumsUnderUpdates,
                            KeepsItsSumsWhenThreadsMeetOnFewKeys, FindsWhatIsThereWhileOthersUpdate,
                            SurvivesThreadsThatComeAndGo);

}  // namespace near_test
