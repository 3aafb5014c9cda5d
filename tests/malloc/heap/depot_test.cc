// A depot with several parts: what one thread leaves, others find, and each part keeps its bound.
#include "heap/depot.h"

#include <gtest/gtest.h>

#include <set>

#include "node/memory.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::Depot;
using near::kMagazineCapacity;
using near::kSizeClasses;
using near::Magazine;

constexpr unsigned kCpus = 3 * Depot::kCpusOfPart - 1;

class DepotTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto before = near::topology.cpus[0];
    near::topology.cpus[0] = kCpus;
    ASSERT_TRUE(depot_.make_parts(0));
    near::topology.cpus[0] = before;
    ASSERT_EQ(depot_.part_count(), 3u);
  }

  // A magazine of the depot that says it is full; no test looks at its blocks.
  Magazine& full_one(uint32_t self, unsigned size_class) {
    Magazine* magazine = depot_.take_empty(self, 0);
    magazine->count.store(kMagazineCapacity[size_class]);
    return *magazine;
  }

  Depot depot_;
};

TEST_F(DepotTest, AnotherThreadFindsWhatAThreadLeft) {
  for (uint32_t by = 0; by < 7; by++) {
    for (uint32_t finder = 0; finder < 7; finder++) {
      Magazine& left = full_one(by, 5);
      ASSERT_TRUE(depot_.leave(by, 5, left));
      EXPECT_FALSE(depot_.is_empty(5));
      EXPECT_EQ(depot_.take(finder, 6), nullptr) << "another class";
      EXPECT_EQ(depot_.take(finder, 5), &left);
      EXPECT_TRUE(depot_.is_empty(5));
      EXPECT_EQ(depot_.bytes(), 0u);
      depot_.leave_empty(finder, left);
      count_cases();
    }
  }
}

TEST_F(DepotTest, ThreadsOfAPartTakeItsMagazinesFirst) {
  for (uint32_t self = 0; self < 3; self++) ASSERT_TRUE(depot_.leave(self, 0, full_one(self, 0)));
  for (uint32_t self = 0; self < 3; self++) {
    const size_t before = depot_.part(self).bytes();
    Magazine* taken = depot_.take(self + 3, 0);
    EXPECT_LT(depot_.part(self).bytes(), before);
    depot_.leave_empty(self, *taken);
  }
  count_cases(3);
}

TEST_F(DepotTest, EmptyMagazinesOfAllPartsAreUsedBeforeMoreAreMade) {
  std::set<Magazine*> mine;
  for (int i = 0; i < 40; i++) mine.insert(depot_.take_empty(0, 0));
  ASSERT_EQ(mine.size(), 40u);
  uint32_t self = 0;
  for (Magazine* each : mine) depot_.leave_empty(self++, *each);
  for (int i = 0; i < 40; i++) EXPECT_EQ(mine.erase(depot_.take_empty(1, 0)), 1u);
  count_cases(40);
}

TEST_F(DepotTest, EachPartKeepsItsShareOfTheBound) {
  constexpr unsigned kClass = 39;
  const size_t bytes = size_t{kMagazineCapacity[kClass]} * kSizeClasses[kClass].size;
  const size_t most = kCpus * near::kDepotBytes / 3;
  for (uint32_t self = 0; self < 3; self++) {
    size_t left = 0;
    while (depot_.leave(self, kClass, full_one(self, kClass))) left += bytes;
    EXPECT_EQ(depot_.part(self).bytes(), left);
    EXPECT_LE(left, most);
    EXPECT_GT(left + bytes, most);
    count_cases();
  }
  EXPECT_LE(depot_.bytes(), kCpus * near::kDepotBytes);
}

TEST_F(DepotTest, WhatNoThreadAskedForIsSurplus) {
  ASSERT_TRUE(depot_.leave(1, 3, full_one(1, 3)));
  near::DepotPart& part = depot_.part(1);
  EXPECT_EQ(part.take_surplus(3), nullptr) << "it came since the last round";
  EXPECT_TRUE(part.end_round(3));
  Magazine* surplus = part.take_surplus(3);
  ASSERT_NE(surplus, nullptr);
  EXPECT_FALSE(part.end_round(3));
  part.leave_empty(*surplus);
  EXPECT_EQ(part.take_empty(), surplus);
  count_cases(2);
}

}  // namespace
}  // namespace near_test
