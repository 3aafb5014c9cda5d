// Token EBR: what waiting for the token costs a thread.
#include <gtest/gtest.h>

#include <cstdint>

#include "every_scheme.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

// A heavy fence interrupts every processor: no fence is issued for a holder that is seen at work.
TEST(Token, AThreadAtWorkIsNotFencedWhileItKeepsTheToken) {
  domain<token<>> domain;
  auto works = domain.attach();
  auto waits = domain.attach();
  for (int i = 0; i < 3000; i++) waits.pin().retire(new char);  // the token may be anywhere
  auto guard = works.pin();
  for (int i = 0; i < 3000; i++) waits.pin().retire(new char);  // it comes to the busy thread
  const uint64_t before = domain.collect().heavy_fences;
  for (int i = 0; i < 100'000; i++) waits.pin().retire(new char);
  EXPECT_LE(domain.collect().heavy_fences - before, 2u);
  count_cases();
}

// A thread between two operations is skipped, at the cost of a fence each time.
TEST(Token, AThreadThatRestsIsPassedOver) {
  domain<token<>> domain;
  auto rests = domain.attach();
  auto goes_on = domain.attach();
  for (int i = 0; i < 3000; i++) goes_on.pin().retire(new char);
  const statistics before = domain.collect();
  for (int i = 0; i < 100'000; i++) goes_on.pin().retire(new char);
  const statistics after = domain.collect();
  EXPECT_GT(after.freed, before.freed + 90'000);
  EXPECT_GT(after.heavy_fences, before.heavy_fences);
  count_cases();
}

}  // namespace
}  // namespace near_test
