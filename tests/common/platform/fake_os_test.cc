// Checks the tests' operating system itself, on which the other tests rely.
#include "support/fake_os.h"

#include <gtest/gtest.h>

#include "base/bits.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/pages.h"

namespace near_test {
namespace {

namespace os = near::os;
using near::kMiB;

class FakeOs : public testing::Test {
 protected:
  void TearDown() override {
    fake_os::fail_none();
    fake_os::set_address_space_limit(SIZE_MAX);
    fake_os::set_commit_limit(SIZE_MAX);
    count_cases();
  }
};
using FakeOsDeathTest = FakeOs;

bool call(OsCall kind, char* at) {
  switch (kind) {
    case OsCall::reserve: {
      void* start = os::reserve(kMiB, kMiB);
      if (start != nullptr) os::unreserve(start, kMiB);
      return start != nullptr;
    }
    case OsCall::make_readable:
      return os::make_readable(at + kMiB, kMiB);
    case OsCall::commit:
      return os::commit(at, kMiB);
    case OsCall::purge:
      return os::purge(at, kMiB);
    case OsCall::bind:
      return os::bind(at, kMiB, 3, false);
    case OsCall::locate: {
      void* page = at;
      int node = 0;
      return os::locate(&page, 1, &node);
    }
    case OsCall::map: {
      void* start = os::map_anywhere(kMiB, kMiB);
      return start != nullptr && os::unmap(start, kMiB);
    }
    case OsCall::unmap:
      return os::unmap(os::map_anywhere(kMiB, kMiB), kMiB);
    case OsCall::move: {
      void* from = os::map_anywhere(kMiB, kMiB);
      void* to = os::map_anywhere(kMiB, kMiB);
      const bool moved = os::move(from, kMiB, to, kMiB);
      if (!moved) os::unmap(from, kMiB);
      os::unmap(to, kMiB);
      return moved;
    }
    default:
      return os::advise_huge_pages(at, kMiB, true);
  }
}

TEST_F(FakeOs, RefusesTheCallThatItShallAndCountsAll) {
  const Memory memory(2 * kMiB, kMiB, false);
  ASSERT_TRUE(os::commit(memory.start(), kMiB));
  for (unsigned k = 0; k < kOsCalls; k++) {
    const auto kind = static_cast<OsCall>(k);
    for (const OsCall by : {kind, OsCall::any}) {
      if (by == OsCall::any && kind >= OsCall::map) continue;  // these are two calls
      const uint64_t before = fake_os::calls(kind);
      const uint64_t refused = fake_os::refusals();
      fake_os::fail(by, 2, false);
      EXPECT_TRUE(call(kind, memory.start()));
      EXPECT_FALSE(call(kind, memory.start()));
      EXPECT_TRUE(call(kind, memory.start()));
      fake_os::fail(by, 2, true);
      EXPECT_TRUE(call(kind, memory.start()));
      EXPECT_FALSE(call(kind, memory.start()));
      EXPECT_FALSE(call(kind, memory.start()));
      fake_os::fail_none();
      EXPECT_TRUE(call(kind, memory.start())) << name_of(kind);
      EXPECT_EQ(fake_os::calls(kind) - before, 7u);
      EXPECT_EQ(fake_os::refusals() - refused, 3u);
    }
  }
}

TEST_F(FakeOs, KeepsTheLimits) {
  fake_os::set_address_space_limit(fake_os::reserved_bytes() + 4 * kMiB);
  EXPECT_EQ(os::reserve(4 * kMiB, kMiB), nullptr);
  void* start = os::reserve(3 * kMiB, kMiB);
  ASSERT_NE(start, nullptr);
  EXPECT_EQ(os::reserve(kMiB, kMiB), nullptr);
  fake_os::set_commit_limit(fake_os::committed_bytes() + kMiB);
  EXPECT_FALSE(os::commit(start, 2 * kMiB));
  EXPECT_TRUE(os::commit(start, kMiB));
  EXPECT_TRUE(os::commit(start, kMiB));
  EXPECT_FALSE(os::commit(start, 2 * kMiB));
  os::unreserve(start, 3 * kMiB);
  EXPECT_NE(os::reserve(kMiB, kMiB), nullptr);
}

TEST_F(FakeOs, KnowsTheStateOfPages) {
  const Memory memory(2 * kMiB, kMiB, false);
  EXPECT_FALSE(fake_os::is_committed(memory.start()));
  EXPECT_TRUE(os::commit(memory.start() + kMiB, 4096));
  EXPECT_TRUE(fake_os::is_committed(memory.start() + kMiB + 4095));
  EXPECT_FALSE(fake_os::is_committed(memory.start() + kMiB + 4096));
  EXPECT_EQ(fake_os::bound_node(memory.start()), -1);
  EXPECT_TRUE(os::bind(memory.start(), kMiB, 5, true));
  EXPECT_EQ(fake_os::bound_node(memory.start() + kMiB - 1), 5);
  EXPECT_EQ(fake_os::bound_node(memory.start() + kMiB), -1);
  EXPECT_FALSE(fake_os::is_committed(this));
}

TEST_F(FakeOs, TheLatestAdviceOnHugePagesCounts) {
  const Memory memory(2 * kMiB, kMiB, false);
  EXPECT_EQ(fake_os::huge_page_advice(memory.start()), -1);
  EXPECT_TRUE(os::advise_huge_pages(memory.start(), 2 * kMiB, false));
  EXPECT_TRUE(os::advise_huge_pages(memory.start() + kMiB, kMiB, true));
  fake_os::fail(OsCall::advise, 1, false);
  EXPECT_FALSE(os::advise_huge_pages(memory.start(), kMiB, true));
  EXPECT_EQ(fake_os::huge_page_advice(memory.start() + kMiB - 1), 0);
  EXPECT_EQ(fake_os::huge_page_advice(memory.start() + kMiB), 1);
}

TEST_F(FakeOsDeathTest, ABreachOfTheContractEndsTheProcess) {
  const Memory memory(2 * kMiB, kMiB, false);
  char* start = memory.start();
  EXPECT_TRUE(os::commit(start, kMiB));
  EXPECT_DEATH(os::commit(start + kMiB, 2 * kMiB), "outside of a reservation");
  EXPECT_DEATH(os::commit(this, 4096), "fake_os: commit");
  EXPECT_DEATH(os::commit(start + 16, 4096), "not made of whole pages");
  EXPECT_DEATH(os::commit(start, 100), "not made of whole pages");
  EXPECT_DEATH(os::purge(start, 2 * kMiB), "not committed");
  EXPECT_DEATH(os::make_readable(start, kMiB), "lose the right to write");
  EXPECT_DEATH(os::unreserve(start, kMiB), "not what was reserved");
  EXPECT_DEATH(os::bind(start + 1, 4096, 0, false), "whole pages");
  EXPECT_DEATH(os::advise_huge_pages(start, 0, true), "an empty range");
  EXPECT_DEATH(os::reserve(100, 4096), "whole pages");
  const fake_os::PageSize pages(size_t{64} << 10);
  EXPECT_DEATH(os::purge(start, 4096), "not made of whole pages");
  EXPECT_TRUE(os::purge(start, size_t{64} << 10));
}

}  // namespace
}  // namespace near_test
