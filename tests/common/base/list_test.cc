// The intrusive list against std::list.
#include "base/list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "support/cases.h"
#include "support/pattern.h"

namespace near_test {
namespace {

struct Item {
  Item* next = nullptr;
  Item* prev = nullptr;
};

void expect_same(const near::List<Item>& list, const std::list<Item*>& model) {
  const Item* before = nullptr;
  const Item* at = list.front();
  for (const Item* expected : model) {
    ASSERT_EQ(at, expected);
    ASSERT_EQ(at->prev, before);
    before = at;
    at = at->next;
  }
  ASSERT_EQ(at, nullptr);
  ASSERT_EQ(list.back(), before);
  ASSERT_EQ(list.empty(), model.empty());
}

TEST(List, AgreesWithTheStandardList) {
  Random random(seed());
  Item items[20];
  near::List<Item> list;
  std::list<Item*> model;
  for (int i = 0; i < 20'000; i++) {
    Item* item = &items[random.below(20)];
    const auto place = std::find(model.begin(), model.end(), item);
    if (place == model.end() && random.below(2) == 0) {
      list.push_front(item);
      model.push_front(item);
    } else if (place == model.end()) {
      list.push_back(item);
      model.push_back(item);
    } else {
      list.remove(item);
      model.erase(place);
    }
    expect_same(list, model);
    if (HasFailure()) return;
    count_cases();
  }
}

}  // namespace
}  // namespace near_test
