// The stack of numbers: order, emptiness; no number is lost or held by two threads under
// contention.
#include "sync/tagged_stack.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

struct Links {
  near::Atomic<uint32_t>* links;
  near::Atomic<uint32_t>& next(uint32_t number) const { return links[number]; }
};

TEST(TaggedStack, GivesTheLastFirst) {
  near::Atomic<uint32_t> links[4] = {};
  near::TaggedStack stack;
  EXPECT_FALSE(stack.was_used());
  EXPECT_EQ(stack.pop(Links{links}), 0u);
  for (const uint32_t number : {1u, 2u, 3u}) stack.push(Links{links}, number);
  for (const uint32_t number : {3u, 2u, 1u, 0u}) EXPECT_EQ(stack.pop(Links{links}), number);
  EXPECT_TRUE(stack.was_used()) << "also when it is empty again";
  stack.push(Links{links}, 2);
  EXPECT_EQ(stack.pop(Links{links}), 2u);
  count_cases(3);
}

TEST(TaggedStack, ANumberIsWithOneThreadAtATime) {
  constexpr uint32_t kNumbers = 6;
  constexpr size_t kThreads = 3;
  const size_t each = scaled(200'000);
  near::Atomic<uint32_t> links[kNumbers + 1] = {};
  std::atomic<int> users[kNumbers + 1] = {};
  uint64_t uses[kNumbers + 1] = {};  // written by the number's holder: the push publishes it
  near::TaggedStack stack;
  for (uint32_t number = 1; number <= kNumbers; number++) stack.push(Links{links}, number);
  std::atomic<uint64_t> taken{0};
  run_threads(kThreads, [&](size_t) {
    for (size_t i = 0; i < each; i++) {
      // Takes two and returns them in the same order: this is what causes ABA.
      const uint32_t mine[] = {stack.pop(Links{links}), stack.pop(Links{links})};
      for (const uint32_t number : mine) {
        if (number == 0) continue;
        ASSERT_EQ(users[number].fetch_add(1), 0);
        uses[number]++;
        taken.fetch_add(1);
      }
      for (const uint32_t number : mine) {
        if (number == 0) continue;
        users[number].fetch_sub(1);
        stack.push(Links{links}, number);
      }
    }
  });
  uint64_t sum = 0;
  uint32_t found = 0;
  while (const uint32_t number = stack.pop(Links{links})) {
    found++;
    ASSERT_LE(found, kNumbers) << "a number is there twice";
    sum += uses[number];
  }
  EXPECT_EQ(found, kNumbers);
  EXPECT_EQ(sum, taken.load());
  count_cases(taken.load());
}

}  // namespace
}  // namespace near_test
