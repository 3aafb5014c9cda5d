// Rules are kept for the code that they were found for, and by one thread at a time.
#include "profile/known_rules.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "support/cases.h"

namespace near_test {
namespace {

using near::Registers;
using near::profile::KnownRules;
using near::profile::Rule;
using near::profile::Rules;
using near::profile::SearchTable;
using near::profile::ShortRules;

// A search table with two functions, and their descriptions.
struct Tables {
  uint8_t form[4] = {1, 0x1b, 0x03, 0x3b};
  int32_t frames = 0;
  uint32_t count = 2;
  struct {
    int32_t start;
    int32_t description;
  } entries[2] = {{0x1000, kFirst}, {0x2000, kFirst + kBytes}};
  uint32_t descriptions[2][7] = {{24, 1, 2, 3, 4, 5, 6}, {24, 1, 2, 3, 4, 5, 6}};

  static constexpr int32_t kFirst = 28;
  static constexpr int32_t kBytes = 28;
  uintptr_t code(uintptr_t place) const { return reinterpret_cast<uintptr_t>(this) + place; }
};
static_assert(offsetof(Tables, descriptions) == Tables::kFirst);

Rules usual_rules() {
  Rules rules{};
  rules.cfa_register = Registers::kStack;
  rules.cfa_offset = 32;
  rules.return_register = Registers::kReturn;
  rules.of[Registers::kReturn] = {Rule::Kind::stored, -8};
  rules.of[Registers::kFrame] = {Rule::Kind::stored, -16};
  return rules;
}

class KnownRulesTest : public testing::Test {
 protected:
  Tables tables;
  SearchTable table{&tables};
  const uintptr_t pc = tables.code(0x1010);
  // Of all tests here: it never goes back, and is later than the clocks of other tests.
  static inline uint64_t now = uint64_t{1} << 40;
  // Blocks of other tests may lie at the same addresses.
  void SetUp() override {
    now += KnownRules::kTrustMs;
    const KnownRules all(now);
    KnownRules::give_back_in_child();
  }
  void TearDown() override { count_cases(); }
};

TEST_F(KnownRulesTest, AreThoseThatWereFound) {
  KnownRules known(now);
  EXPECT_EQ(known.find(pc, table), nullptr);
  known.add(pc, table, table.find(pc), usual_rules());
  const ShortRules* found = known.find(pc, table);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->cfa_register, Registers::kStack);
  EXPECT_EQ(found->cfa_offset, 32);
  EXPECT_FALSE(found->cfa_is_stored);
  EXPECT_FALSE(found->has_no_caller);
  for (unsigned i = 0; i < std::size(Registers::kKept); i++) {
    const unsigned number = Registers::kKept[i];
    EXPECT_EQ(found->stored[i],
              number == Registers::kReturn ? -1 : (number == Registers::kFrame ? -2 : 0));
  }
  EXPECT_EQ(known.find(pc + 1, table), nullptr);
}

TEST_F(KnownRulesTest, SayWhereStacksEnd) {
  KnownRules known(now);
  Rules rules = usual_rules();
  rules.of[Registers::kReturn].kind = Rule::Kind::undefined;
  known.add(pc, table, table.find(pc), rules);
  ASSERT_NE(known.find(pc, table), nullptr);
  EXPECT_TRUE(known.find(pc, table)->has_no_caller);
}

TEST_F(KnownRulesTest, SayThatNoTableHasTheCode) {
  KnownRules known(now);
  known.add_unknown(pc, table, table.find(pc));
  ASSERT_NE(known.find_tested(pc), nullptr);
  EXPECT_EQ(known.find_tested(pc)->cfa_register, ShortRules::kNoTable);
  EXPECT_NE(known.find(pc, table), nullptr);
  tables.descriptions[0][2] ^= 4;
  EXPECT_EQ(known.find(pc, table), nullptr) << "the description may hold it now";
}

// Of a pair, the last two that were added stay; each is found under its own address.
TEST_F(KnownRulesTest, OfManyAddressesAreFoundUnderTheirOwn) {
  KnownRules known(now);
  constexpr int kMost = 0x1000;
  int kept = 0;
  for (int i = 0; i < kMost; i++) {
    Rules rules = usual_rules();
    rules.cfa_offset = i * 8;
    known.add(tables.code(0x1000) + static_cast<uintptr_t>(i), table, 0, rules);
  }
  for (int i = 0; i < kMost; i++) {
    const ShortRules* found = known.find(tables.code(0x1000) + static_cast<uintptr_t>(i), table);
    if (found == nullptr) continue;
    EXPECT_EQ(found->cfa_offset, i * 8);
    kept++;
  }
  EXPECT_GE(kept, 300);
  EXPECT_LE(kept, static_cast<int>(KnownRules::kBytes / 20));
}

TEST_F(KnownRulesTest, OfReplacedCodeAreNotUsed) {
  KnownRules known(now);
  known.add(pc, table, table.find(pc), usual_rules());
  for (unsigned word = 0; word < 7; word++) {
    tables.descriptions[0][word] ^= 4;
    EXPECT_EQ(known.find(pc, table), nullptr) << "word " << word;
    tables.descriptions[0][word] ^= 4;
  }
  tables.entries[0].description += Tables::kBytes;  // another function's, with equal bytes
  EXPECT_EQ(known.find(pc, table), nullptr);
  tables.entries[0].description -= Tables::kBytes;
  tables.entries[0].start = 0x1011;
  EXPECT_EQ(known.find(pc, table), nullptr);
  tables.entries[0].start = 0x800;
  tables.entries[1].start = 0x1000;
  EXPECT_EQ(known.find(pc, table), nullptr);
  tables.entries[1].start = 0x2000;
  EXPECT_NE(known.find(pc, table), nullptr);
  tables.count = 0;
  EXPECT_EQ(known.find(pc, SearchTable(&tables)), nullptr);
}

// The tables are read once in a period: what replaced the code meanwhile is not noticed.
TEST_F(KnownRulesTest, AreTestedOnceInAPeriod) {
  {
    KnownRules known(now);
    EXPECT_EQ(known.find_tested(pc), nullptr);
    known.add(pc, table, table.find(pc), usual_rules());
  }
  tables.descriptions[0][2] ^= 4;
  now += KnownRules::kTrustMs - 1;
  EXPECT_NE(KnownRules(now).find_tested(pc), nullptr);
  now += 1;
  KnownRules known(now);
  EXPECT_EQ(known.find_tested(pc), nullptr);
  EXPECT_EQ(known.find(pc, table), nullptr);
  tables.descriptions[0][2] ^= 4;
  EXPECT_NE(known.find(pc, table), nullptr);
  EXPECT_NE(known.find_tested(pc), nullptr);
  EXPECT_EQ(known.find_tested(pc + 1), nullptr);
}

TEST_F(KnownRulesTest, OfAnOldPeriodAreNotThoseOfAnEqualNumber) {
  {
    KnownRules known(now);
    known.add(pc, table, table.find(pc), usual_rules());
  }
  for (int period = 0; period < 600; period++) {
    now += KnownRules::kTrustMs;
    EXPECT_EQ(KnownRules(now).find_tested(pc), nullptr) << period;
  }
}

TEST_F(KnownRulesTest, AreNotKeptIfTheyDoNotFit) {
  KnownRules known(now);
  const auto is_kept = [&](auto&& change) {
    Rules rules = usual_rules();
    change(rules);
    const uintptr_t place = tables.code(0x1800);
    known.add(place, table, 0, rules);
    return known.find(place, table) != nullptr;
  };
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.cfa_offset = 40000; }));
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.cfa_register = Registers::kCount; }));
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.return_register = 0; }));
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.of[0] = {Rule::Kind::stored, -24}; }));
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.of[Registers::kFrame].offset = -12; }));
  EXPECT_FALSE(is_kept([](Rules& rules) { rules.of[Registers::kFrame].offset = -2048; }));
  EXPECT_FALSE(
      is_kept([](Rules& rules) { rules.of[Registers::kFrame] = {Rule::Kind::in_register, 1}; }));
  tables.descriptions[0][0] = 2048;  // its length
  EXPECT_FALSE(is_kept([](Rules&) {}));
  tables.descriptions[0][0] = 24;
  EXPECT_TRUE(is_kept([](Rules&) {}));
}

TEST_F(KnownRulesTest, BelongToOneAtATime) {
  {
    KnownRules first(now);
    first.add(pc, table, table.find(pc), usual_rules());
    KnownRules second(now);
    EXPECT_EQ(second.find(pc, table), nullptr);
    second.add(pc + 1, table, 0, usual_rules());
    EXPECT_EQ(first.find(pc + 1, table), nullptr);
    EXPECT_NE(first.find(pc, table), nullptr);
  }
  EXPECT_NE(KnownRules(now).find(pc, table), nullptr);
}

// As in a child of fork whose parent had another thread that took them.
TEST_F(KnownRulesTest, AreEmptyInAChildThatLacksTheirThread) {
  const KnownRules lost(now);
  KnownRules::give_back_in_child();
  KnownRules known(now);
  EXPECT_EQ(known.find(pc, table), nullptr);
  known.add(pc, table, table.find(pc), usual_rules());
  EXPECT_NE(known.find(pc, table), nullptr);
}

}  // namespace
}  // namespace near_test
