// The stack that is emptied whole: order, chains, and no item lost or duplicated under
// contention.
#include "sync/inbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

struct Item {
  Item* next = nullptr;
  size_t number = 0;
};
using Inbox = near::Inbox<Item, &Item::next>;

TEST(Inbox, GivesTheLastFirst) {
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  EXPECT_EQ(inbox.take_all(), nullptr);
  Item items[3];
  for (Item& item : items) inbox.push(&item);
  EXPECT_FALSE(inbox.empty());
  Item* first = inbox.take_all();
  EXPECT_EQ(first, &items[2]);
  EXPECT_EQ(first->next, &items[1]);
  EXPECT_EQ(items[1].next, &items[0]);
  EXPECT_EQ(items[0].next, nullptr);
  EXPECT_TRUE(inbox.empty());
  count_cases(3);
}

TEST(Inbox, AChainGoesOnTopAsItIs) {
  Inbox inbox;
  Item items[4];
  inbox.push(&items[0]);
  items[3].next = &items[2];
  items[2].next = &items[1];
  inbox.push_chain(&items[3], &items[1]);
  Item* at = inbox.take_all();
  for (int i = 3; i >= 0; i--) {
    ASSERT_EQ(at, &items[i]);
    at = at->next;
  }
  EXPECT_EQ(at, nullptr);
  count_cases(4);
}

TEST(Inbox, NothingIsLostOrDoubledUnderContention) {
  const size_t each = scaled(100'000);
  constexpr size_t kPushers = 3;
  std::vector<Item> items(kPushers * each);
  Inbox inbox;
  std::atomic<size_t> pushing{kPushers};
  Threads threads(kPushers, [&](size_t t) {
    for (size_t i = 0; i < each; i++) {
      Item& item = items[t * each + i];
      item.number = 1;  // read by the taker: the push must publish it
      inbox.push(&item);
    }
    pushing.fetch_sub(1);
  });
  size_t taken = 0;
  for (bool more = true; more;) {
    more = pushing.load() > 0;
    for (Item* item = inbox.take_all(); item != nullptr;) {
      Item* next = item->next;
      ASSERT_EQ(item->number++, 1u);
      taken++;
      item = next;
    }
  }
  threads.join();
  EXPECT_EQ(taken, kPushers * each);
  count_cases(taken);
}

}  // namespace
}  // namespace near_test
