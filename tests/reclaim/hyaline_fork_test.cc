// hyaline: batches that are in flight at a fork, in the child.
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "born_objects.h"
#include "single_step.h"
#include "support/cases.h"
#include "support/forked.h"
#include "test_access.h"

namespace near_test {
namespace {

using namespace near::reclaim;
using impl::TestAccess;

constexpr long kBatch = 64;
constexpr int64_t kLimit = int64_t{1} << 20;

// A writer that this thread owns, with a batch that the reader, another thread, holds.
struct HyalineFork : testing::Test {
  HyalineFork() {
    live_objects = 0;
    retire(1);
    (void)writer.pin();
  }

  void retire(long objects) {
    for (long i = 0; i < objects; i++) writer.retire(new Born);
  }

  using Guard = guard<hyaline>;
  static std::unique_ptr<Guard> pinned(handle<hyaline>& handle) {
    return std::unique_ptr<Guard>(new Guard(handle.pin()));
  }

  // Calls `act` while another thread is pinned.
  template <class Act>
  void beside_reader(Act act) {
    std::binary_semaphore is_pinned{0};
    std::binary_semaphore may_leave{0};
    std::thread reader([&] {
      auto guard = domain.pin();
      is_pinned.release();
      may_leave.acquire();
    });
    is_pinned.acquire();
    act();
    may_leave.release();
    reader.join();
  }

  template <class Check>
  void expect_in_child(Check check) {
    EXPECT_EQ(run_in_child([&] { return check() ? 0 : 1; }), 0);
    count_cases();
  }

  bool all_is_freed(uint64_t lost = 0) {
    const statistics sums = domain.collect();
    const auto live = static_cast<uint64_t>(live_objects.load());
    return sums.unreclaimed == 0 && live == lost && sums.lost == lost &&
           sums.freed + sums.lost == sums.retired && TestAccess::account(domain) == kLimit;
  }

  static options limited() {
    options settings = batches_of(kBatch);
    settings.max_unreclaimed_bytes = kLimit;
    return settings;
  }

  near::reclaim::domain<hyaline> domain{limited()};
  handle<hyaline> writer = domain.attach();
};

TEST_F(HyalineFork, AChildFreesWhatAThreadHeldThatIsGone) {
  beside_reader([&] {
    retire(kBatch);
    EXPECT_EQ(live_objects, kBatch);
    expect_in_child([&] {
      if (domain.collect().unreclaimed != kBatch) return false;
      for (int i = 0; i < 2; i++) (void)writer.pin();
      return all_is_freed();
    });
  });
  domain.barrier();
  EXPECT_TRUE(all_is_freed());
}

TEST_F(HyalineFork, AChildKeepsWhatItsThreadHolds) {
  auto other = domain.attach();
  beside_reader([&] {
    auto guard = pinned(other);
    retire(kBatch);
    expect_in_child([&] {
      retire(kBatch);
      const bool is_held = domain.collect().unreclaimed == 2 * kBatch && live_objects == 2 * kBatch;
      guard.reset();
      domain.barrier();
      return is_held && all_is_freed();
    });
  });
}

TEST_F(HyalineFork, AChildIsNotHeldUpByWhatAThreadWasDropping) {
  auto other = domain.attach();
  auto& list = TestAccess::first_record(domain).lists.own;
  beside_reader([&] {
    auto guard = pinned(other);
    retire(kBatch);
    list.load(std::memory_order_acquire)->batch->references.fetch_add(1, std::memory_order_relaxed);
    expect_in_child([&] {
      guard.reset();
      retire(kBatch);
      domain.barrier();
      return all_is_freed(kBatch);
    });
    list.load(std::memory_order_acquire)->batch->references.fetch_sub(1, std::memory_order_relaxed);
  });
}

#if NEAR_TEST_STEPS
// Another thread sends, receives and frees batches, and is stopped after some instruction of that.
// The child has a whole account then, and a barrier ends.
TEST_F(HyalineFork, AForkAtAnyInstructionOfAnotherThreadLeavesTheAccountWhole) {
  bool acted = true;
  for (long at = 1; acted; at += 1 + static_cast<long>(at / scaled(8))) {
    beside_reader([&] {
      retire(kBatch);
      std::binary_semaphore is_stopped{0};
      std::binary_semaphore goes_on{0};
      std::thread other([&] {
        auto handle = domain.attach();
        for (long i = 1; i < kBatch; i++) handle.retire(new Born);
        auto* const last = new Born;
        SingleStep step(at, [&] {
          is_stopped.release();
          goes_on.acquire();
        });
        step.go();
        {
          auto guard = handle.pin();
          handle.retire(last);
        }
        (void)handle.pin();
        step.halt();
        acted = step.has_acted();
        if (!acted) is_stopped.release();
      });
      is_stopped.acquire();
      expect_in_child([&] {
        retire(2 * kBatch);
        domain.barrier();
        const statistics sums = domain.collect();
        return sums.unreclaimed == 0 && TestAccess::account(domain) == kLimit &&
               sums.freed + sums.lost == sums.retired && sums.lost <= 4 * kBatch;
      });
      goes_on.release();
      other.join();
    });
    EXPECT_FALSE(HasFailure()) << "at instruction " << at;
    if (HasFailure()) return;
  }
  domain.barrier();
  EXPECT_TRUE(all_is_freed());
}
#endif

}  // namespace
}  // namespace near_test
