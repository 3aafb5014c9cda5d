// Links that are encoded: lists of them, and what a pop and a walk do when one was overwritten.
#include "span/free_list.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <set>
#include <vector>

#include "front/thread.h"
#include "platform/random.h"
#include "span/span.h"
#include "support/cases.h"
#include "support/forked.h"
#include "support/pages.h"

namespace near_test {
namespace {

using near::Block;
using near::Damage;
using near::Flaw;
using near::FreeList;
using near::kLinkReach;
using near::ListWalk;

constexpr unsigned kClass = 3;  // 64 bytes

// A span whose carved blocks are in its list, under a key that is not the process's.
class FreeListTest : public testing::TestWithParam<uintptr_t> {
 protected:
  FreeListTest() : key_(near::link_key) {
    near::link_key.value = GetParam();
    span_.start = memory_.start() + memory_.bytes() - near::kSliceSize;
    span_.slices = 1;
    near::form_span(span_, kClass);
    near::carve(span_, span_.local);
    for (ListWalk walk(span_, span_.local); Block* block = walk.next();) blocks_.push_back(block);
  }
  ~FreeListTest() override { near::link_key.value = key_; }

  Damage walk_all() {
    ListWalk walk(span_, span_.local);
    while (walk.next() != nullptr) continue;
    return walk.damage();
  }

  void expect_damage(Flaw flaw, const void* block) {
    const Damage damage = walk_all();
    EXPECT_EQ(damage.flaw, flaw);
    EXPECT_EQ(damage.block, block);
    EXPECT_TRUE(damage.present());
    count_cases();
  }

  uintptr_t key_;
  Memory memory_{near::kChunkSize, near::kChunkSize};
  near::Span span_{};
  std::vector<Block*> blocks_;
};

TEST_P(FreeListTest, AMarkedBlockStaysUntilItIsAskedFor) {
  for (const size_t place : {size_t{0}, size_t{1}, blocks_.size() - 1}) {
    blocks_[place]->set_mark(true);
    EXPECT_FALSE(walk_all().present());
    EXPECT_EQ(count_list(span_, span_.local), blocks_.size());
    EXPECT_EQ(blocks_[place]->next(), place + 1 < blocks_.size() ? blocks_[place + 1] : nullptr);
    FreeList list;
    list.set(span_.local.head());
    for (size_t i = 0; i < blocks_.size(); i++) {
      EXPECT_EQ(list.pop_marked(), i == place ? blocks_[i] : nullptr);
      EXPECT_EQ(i == place ? blocks_[i] : list.pop(), blocks_[i]);
    }
    EXPECT_TRUE(list.is_empty());
    EXPECT_EQ(list.pop_marked(), nullptr);
    blocks_[place]->set_mark(true);
    list.set(blocks_[place]->address());
    EXPECT_EQ(list.pop(), nullptr);
    blocks_[place]->link = ~blocks_[place]->link;
    EXPECT_EQ(list.pop_marked(), nullptr) << "it was overwritten";
    blocks_[place]->link = ~blocks_[place]->link;
    blocks_[place]->set_mark(false);
    count_cases();
  }
}

TEST_P(FreeListTest, WhatIsPushedLastIsPoppedFirst) {
  ASSERT_GT(blocks_.size(), 10u);
  FreeList& list = span_.local;
  for (Block* block : blocks_) {
    EXPECT_EQ(list.front(), block);
    EXPECT_EQ(list.pop(), block);
    count_cases();
  }
  EXPECT_TRUE(list.is_empty());
  EXPECT_EQ(list.pop(), nullptr);
  EXPECT_EQ(list.front(), nullptr);
  for (Block* block : blocks_) {
    uintptr_t distance = 0;
    EXPECT_FALSE(list.is_first(block, distance));
    list.push(block, distance);
    EXPECT_TRUE(list.is_first(block, distance));
  }
  EXPECT_EQ(near::count_list(span_, list), blocks_.size());
  for (size_t i = blocks_.size(); i-- > 0;) EXPECT_EQ(list.pop(), blocks_[i]);
  EXPECT_TRUE(list.is_empty());
  EXPECT_FALSE(walk_all().present());
}

TEST_P(FreeListTest, TheHeadOfAnEmptyListLiesInTheChunk) {
  span_.local.clear(span_.start);
  EXPECT_LT(span_.local.head() ^ reinterpret_cast<uintptr_t>(span_.start), kLinkReach);
  span_.local.splice(blocks_[2], blocks_[2]);
  EXPECT_EQ(blocks_[2]->next(), nullptr);
  EXPECT_LT(blocks_[2]->distance(), kLinkReach) << "the end passes the test of a link";
  blocks_[1]->link_to_end();
  EXPECT_EQ(blocks_[1]->next(), nullptr);
  EXPECT_LT(blocks_[1]->distance(), kLinkReach);
  count_cases(2);
}

TEST_P(FreeListTest, NoPopFollowsALinkOutOfTheChunk) {
  Block* block = blocks_[0];
  const uintptr_t link = block->link;
  for (unsigned bit = 0; bit < 63; bit++) {  // the last one is the mark
    block->link = link ^ uintptr_t { 1 } << bit;
    const bool is_out = bit >= static_cast<unsigned>(std::countr_zero(kLinkReach));
    if (is_out) {
      EXPECT_EQ(span_.local.pop(), nullptr) << bit;
      EXPECT_EQ(span_.local.front(), block) << "it stays";
      EXPECT_EQ(block->next(), nullptr);
      expect_damage(Flaw::overwritten, block);
    } else {
      EXPECT_EQ(span_.local.pop(), block) << bit;
      EXPECT_LT(span_.local.head() ^ block->address(), kLinkReach) << bit;
      span_.local.set(block->address());
    }
    count_cases();
  }
  for (const uintptr_t written : {uintptr_t{0}, reinterpret_cast<uintptr_t>(&span_),
                                  uintptr_t{0x4141414141414141}, block->address()}) {
    block->link = written;
    const bool is_whole = (written ^ GetParam()) < kLinkReach;  // only without a key
    EXPECT_EQ(span_.local.pop(), is_whole ? block : nullptr);
    span_.local.set(block->address());
    count_cases();
  }
  block->link = link;
  EXPECT_FALSE(walk_all().present());
}

TEST_P(FreeListTest, AWalkEndsAtALinkToNoBlock) {
  Block* block = blocks_[3];
  const uintptr_t link = block->link;
  const auto start = reinterpret_cast<uintptr_t>(span_.start);
  const uintptr_t end = start + size_t{span_.shape().capacity} * span_.shape().size;
  for (const uintptr_t place : {start + 2, start + 16, end, start - 64, start - 65536}) {
    block->link_to(place);
    if (block->distance() >= kLinkReach) continue;  // the next chunk begins after the span
    expect_damage(Flaw::stray, block);
    EXPECT_EQ(near::count_list(span_, span_.local), 4u) << "those before it";
  }
  block->link = link;
  span_.local.set(start + 16);
  expect_damage(Flaw::stray, span_.start + 16);
}

TEST_P(FreeListTest, AWalkEndsInARing) {
  blocks_[5]->link_to(blocks_[2]);
  const Damage damage = walk_all();
  EXPECT_EQ(damage.flaw, Flaw::ring);
  EXPECT_TRUE(near::is_block(span_, damage.block));
  EXPECT_EQ(near::count_list(span_, span_.local), span_.shape().capacity);
  count_cases();
}

TEST_P(FreeListTest, ADamagedListGivesNoPagesBack) {
  while (span_.uncarved != 0) near::carve(span_, span_.local);
  for (const bool is_stray : {false, true}) {
    Block* block = blocks_[4];
    const uintptr_t link = block->link;
    is_stray ? block->link_to(block->address() + 16) : void(block->link = ~link);
    Damage damage{};
    EXPECT_EQ(near::purge_free_pages(span_, damage), 0u);
    EXPECT_EQ(damage.flaw, is_stray ? Flaw::stray : Flaw::overwritten);
    EXPECT_EQ(damage.block, block);
    EXPECT_EQ(span_.uncarved, 0u);
    block->link = link;
    count_cases();
  }
  Damage damage{};
  EXPECT_EQ(near::purge_free_pages(span_, damage), near::kSliceSize);
  EXPECT_FALSE(damage.present());
}

INSTANTIATE_TEST_SUITE_P(Keys, FreeListTest,
                         testing::Values(uintptr_t{0}, uintptr_t{0x8badf00ddeadbeef}, ~uintptr_t{0},
                                         uintptr_t{1} << 40));

// No change of one bit of a link makes it the end of its span's lists, whatever block it leads to.
TEST_P(FreeListTest, AnEndIsFarFromEveryBlock) {
  for (const Block* block : blocks_) {
    EXPECT_GE(std::popcount(block->address() ^ near::end_of_list(span_.start)), 4);
    count_cases();
  }
  const uintptr_t link = blocks_[2]->link;
  blocks_[2]->link ^= 1;
  expect_damage(Flaw::overwritten, blocks_[2]);
  blocks_[2]->link = link;
  span_.local.set(span_.local.head() | 1);
  expect_damage(Flaw::overwritten, reinterpret_cast<Block*>(span_.local.head() & ~uintptr_t{1}));
  span_.local.set(span_.local.head() & ~uintptr_t{1});
  EXPECT_FALSE(walk_all().present());
}

// Two draws differ although the kernel's bytes for this process are the same. Where the system
// refuses getrandom, they do not.
TEST(Secrets, ComeFromTheSystemUnlessItRefuses) {
  const auto draw = [] {
    near::draw_key();
    return near::secret(near::Secret::key_of_links);
  };
  const pid_t child = fork();
  if (child == 0) {
    const bool differ = draw() != draw();
    const sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {std::size(code), const_cast<sock_filter*>(code)};
    const bool filters = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    const bool same = !filters || (draw() == draw() && draw() != 0);
    _exit(differ && same ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
  count_cases();
}

TEST(Secrets, StayTheSameAndTellNothingOfEachOther) {
  near::start_library();
  std::set<uint64_t> all;
  for (uint64_t number = 0; number < 100; number++) {
    for (const auto name : {near::Secret::key_of_links, near::Secret::heap_place}) {
      const uint64_t secret = near::secret(name, number);
      EXPECT_EQ(near::secret(name, number), secret);
      EXPECT_TRUE(all.insert(secret).second);
      EXPECT_GT(std::popcount(secret), 8);
      EXPECT_LT(std::popcount(secret), 56);
      count_cases();
    }
  }
}

}  // namespace
}  // namespace near_test
