// A heap whose free lists the program damages: the heap finds the damage wherever it follows a
// link, reports it once, abandons the list, and goes on with true counts.
#include "heap/damage.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "front/front.h"
#include "nearmalloc/nearmalloc.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/heap_room.h"
#include "support/said_of.h"

namespace near_test {
namespace {

using near::Block;
using near::Damage;
using near::Flaw;
using near::kSizeClasses;
using near::Span;

Block* block_at(char* bytes) { return reinterpret_cast<Block*>(bytes); }
void overwrite(char* bytes) { block_at(bytes)->link = 0x4141414141414141; }

class DamageTest : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    near::start_library();
    near::clean_heaps(true);
    near::take_damage();
    for (const Span* span : all_spans()) before_.insert(span);
    room_ = std::make_unique<HeapRoom>();
    capacity_ = kSizeClasses[GetParam()].capacity;
    // The short spans stay full, so that the tests have long ones.
    if (near::kShortSpans[GetParam()].capacity < capacity_) {
      char* block = nullptr;
      while (room_->span_of(block = room_->take(GetParam())).is_short()) continue;
      room_->free(block);
    }
  }

  // Abandoned blocks count as held: once they are freed, every span leaves.
  void TearDown() override {
    while (!room_->live().empty()) room_->free(room_->live().begin()->first);
    for (char* bytes : abandoned()) {
      Span& span = room_->span_of(bytes);
      const auto pushed = span.remote.push(near::SpanBlocks{span.start}, block_at(bytes));
      EXPECT_FALSE(pushed.repeated);
      if (pushed.first) near::heap_by_id(pushed.owner)->receive(&span);
    }
    room_->flush();
    near::clean_heaps(true);
    for (const Span* span : all_spans()) EXPECT_EQ(before_.count(span), 1u);
    EXPECT_FALSE(near::is_damage_recorded());
  }

  static std::vector<Span*> all_spans() {
    std::vector<Span*> spans;
    near::nodes[0].for_each_span([&](const Span& span) {
      if (span.kind == near::SpanKind::blocks) spans.push_back(const_cast<Span*>(&span));
    });
    return spans;
  }

  // Blocks that are neither live nor free anywhere.
  std::set<char*> abandoned() {
    std::set<char*> lost;
    for (Span* span : all_spans()) {
      if (before_.count(span) != 0) continue;
      std::set<char*> here = blocks_of(*span);
      for (near::ListWalk walk(*span, *span->list); Block* block = walk.next();) {
        EXPECT_EQ(here.erase(reinterpret_cast<char*>(block)), 1u) << "free twice";
      }
      const Block* block = span->remote.peek(near::SpanBlocks{span->start});
      for (; block != nullptr; block = block->next()) {
        EXPECT_EQ(here.erase(reinterpret_cast<char*>(const_cast<Block*>(block))), 1u);
      }
      lost.merge(here);
    }
    for (const auto& [bytes, size_class] : room_->live()) lost.erase(bytes);
    return lost;
  }

  // The blocks of the span that were carved.
  static std::set<char*> blocks_of(const Span& span) {
    std::set<char*> blocks;
    const near::SizeClass& shape = span.shape();
    for (uint32_t number = 0; number < shape.capacity; number++) {
      const size_t offset = size_t{number} * shape.size;
      const size_t unit = near::carves_blocks(shape) ? number : offset >> near::kPageShift;
      if ((span.uncarved >> unit & 1) == 0) blocks.insert(span.start + offset);
    }
    return blocks;
  }

  std::vector<char*> take(uint32_t count) {
    std::vector<char*> blocks;
    for (uint32_t i = 0; i < count; i++) blocks.push_back(room_->take(GetParam()));
    return blocks;
  }

  // Frees `count` blocks and leaves one more live: the block that was freed last is popped
  // first.
  std::vector<char*> freed(uint32_t count) {
    std::vector<char*> blocks = take(count + 1);
    blocks.pop_back();
    for (char* block : blocks) room_->free(block);
    return blocks;
  }

  // A cold span with `free` free blocks, which are returned.
  std::vector<char*> cold_span(uint32_t free) {
    std::vector<char*> blocks = take(capacity_);
    take(capacity_);
    blocks.resize(free);
    for (char* block : blocks) room_->free(block);
    room_->return_spares();
    return blocks;
  }

  void expect_found(Flaw flaw, const char* block) {
    EXPECT_TRUE(near::is_damage_recorded());
    const Damage damage = near::take_damage();
    EXPECT_EQ(damage.flaw, flaw);
    if (block != nullptr) {
      EXPECT_EQ(damage.block, block);
    }
    EXPECT_FALSE(near::is_damage_recorded());
    count_cases();
  }

  // No block is handed out twice (the room sees to that), and the counts are true.
  void expect_goes_on() {
    for (int round = 0; round < 2; round++) {
      const std::vector<char*> blocks = take(2 * capacity_ + 3);
      for (const Span* span : room_->spans()) EXPECT_EQ(room_->heap().check_span(*span), 0u);
      for (char* block : blocks) room_->free(block);
      for (const Span* span : room_->spans()) EXPECT_EQ(room_->heap().check_span(*span), 0u);
    }
    EXPECT_FALSE(near::is_damage_recorded()) << "it was told";
  }

  std::set<const Span*> before_;
  std::unique_ptr<HeapRoom> room_;
  uint32_t capacity_ = 0;
};

TEST_P(DamageTest, IsFoundAtThePop) {
  const std::vector<char*> blocks = freed(6);
  EXPECT_EQ(abandoned().size(), 0u);
  overwrite(blocks[3]);
  take(2);
  EXPECT_FALSE(near::is_damage_recorded()) << "nobody came there";
  take(1);
  expect_found(Flaw::overwritten, blocks[3]);
  EXPECT_GE(abandoned().size(), 4u);
  expect_goes_on();
}

TEST_P(DamageTest, ALinkWithinTheChunkIsFoundOneBlockLater) {
  const std::vector<char*> blocks = freed(6);
  block_at(blocks[5])->link_to(block_at(blocks[5])->address() + 16);
  overwrite(blocks[5] + 16);
  EXPECT_EQ(take(1)[0], blocks[5]);
  fill(blocks[5], kSizeClasses[GetParam()].size, reinterpret_cast<uintptr_t>(blocks[5]));
  take(1);
  expect_found(Flaw::stray, blocks[5] + 16);
  expect_goes_on();
}

// A link with its lowest bit inverted looks like the end of a list.
TEST_P(DamageTest, AnEndThatIsNotTheSpansIsFoundAtTheNextRequest) {
  const std::vector<char*> blocks = freed(6);
  block_at(blocks[3])->link ^= 1;
  for (size_t i = 5; i >= 3; i--) EXPECT_EQ(take(1)[0], blocks[i]);
  EXPECT_FALSE(near::is_damage_recorded()) << "nobody came there";
  take(1);
  expect_found(Flaw::overwritten, blocks[2]);
  expect_goes_on();
}

TEST_P(DamageTest, AnEndThatIsNotTheSpansIsFoundByAWalk) {
  const std::vector<char*> blocks = freed(6);
  block_at(blocks[3])->link ^= 1;
  room_->flush();
  expect_found(Flaw::overwritten, blocks[3]);
  expect_goes_on();
}

TEST_P(DamageTest, AnEndThatIsNotTheSpansIsFoundAmongRemoteFrees) {
  for (const size_t changed : {size_t{1}, size_t{3}}) {  // the last block of the list; another one
    const std::vector<char*> blocks = take(6);
    for (size_t i = 1; i < 6; i++) room_->free_remotely(blocks[i]);
    block_at(blocks[changed])->link ^= 1;
    room_->flush();
    expect_found(Flaw::overwritten, blocks[changed]);
    expect_goes_on();
  }
}

TEST_P(DamageTest, IsFoundWhenHotSpansAreLookedAt) {
  if (GetParam() != kSmall) GTEST_SKIP() << "these are counted, not looked at";
  const std::vector<char*> blocks = freed(9);
  overwrite(blocks[1]);
  room_->heap().ask_to_look();
  room_->take(kSmall + 1);
  expect_found(Flaw::overwritten, blocks[1]);
  expect_goes_on();
}

TEST_P(DamageTest, IsFoundByAFlush) {
  const std::vector<char*> blocks = freed(5);
  overwrite(blocks[2]);
  room_->flush();
  expect_found(Flaw::overwritten, blocks[2]);
  expect_goes_on();
}

TEST_P(DamageTest, IsFoundInASpanThatIsUsedAgain) {
  const uint32_t free = kSizeClasses[GetParam()].reuse_at;
  if (free >= capacity_) GTEST_SKIP() << "such a span is empty";
  const std::vector<char*> blocks = cold_span(free);
  overwrite(blocks[0]);
  take(free);
  expect_found(Flaw::overwritten, blocks[0]);
  expect_goes_on();
}

TEST_P(DamageTest, IsFoundAmongRemoteFrees) {
  const std::vector<char*> blocks = take(6);
  for (size_t i = 1; i < 6; i++) room_->free_remotely(blocks[i]);
  overwrite(blocks[3]);
  room_->flush();
  expect_found(Flaw::overwritten, blocks[3]);
  expect_goes_on();
}

TEST_P(DamageTest, IsFoundWhenAParkedHeapsSpanIsAdopted) {
  HeapRoom other;
  std::vector<char*> blocks;
  for (int i = 0; i < 4; i++) blocks.push_back(other.take(GetParam()));
  for (size_t i = 1; i < blocks.size(); i++) other.free(blocks[i]);
  overwrite(blocks[1]);
  other.park();
  take(capacity_ + 1);
  expect_found(Flaw::overwritten, blocks[1]);
  expect_goes_on();
}

TEST_P(DamageTest, ARingIsFoundByAWalk) {
  const std::vector<char*> blocks = freed(4);
  Span& span = room_->span_of(blocks[0]);
  span.list->splice(block_at(blocks[1]), block_at(blocks[1]));
  room_->flush();
  expect_found(Flaw::ring, nullptr);
  expect_goes_on();
}

// The sum of blocks shows a second free that no list shows.
TEST_P(DamageTest, MoreFreeBlocksThanBlocksAreADoubleFree) {
  const std::vector<char*> blocks = cold_span(capacity_ - 1);
  Span& span = room_->span_of(blocks[0]);
  for (size_t i = 0; i < 2; i++) {
    if (span.remote.push(near::SpanBlocks{span.start}, block_at(blocks[i])).first) {
      room_->heap().receive(&span);
    }
  }
  room_->flush();
  expect_found(Flaw::ring, span.start);
  expect_goes_on();
}

INSTANTIATE_TEST_SUITE_P(Classes, DamageTest, testing::Values(kSmall, kMedium, kLargest));

// On a heap that no thread has used: one that gave back pages in vain looks for no more of them.
class DamagedPagesTest : public DamageTest {
 protected:
  void SetUp() override {
    DamageTest::SetUp();
    while (room_->heap().visits() != 0) {
      used_.push_back(std::move(room_));
      room_ = std::make_unique<HeapRoom>();
    }
  }

 private:
  std::vector<std::unique_ptr<HeapRoom>> used_;
};

TEST_P(DamagedPagesTest, IsFoundWhenFreePagesAreLookedFor) {
  if (near::os::page_size() == near::kSliceSize) GTEST_SKIP() << "a page is a span";
  std::vector<std::vector<char*>> spans;
  for (int i = 0; i < 100; i++) spans.push_back(take(capacity_));
  for (const auto& blocks : spans) {
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % 512 != 0) room_->free(blocks[i]);
      if (i == 1) overwrite(blocks[1]);
    }
  }
  expect_found(Flaw::overwritten, nullptr);
  take(100 * capacity_);  // meets the damage of the other spans
  expect_found(Flaw::overwritten, nullptr);
  expect_goes_on();
}

INSTANTIATE_TEST_SUITE_P(Classes, DamagedPagesTest, testing::Values(kSmall));

// Damage that a call finds under a lock is reported when the call holds no lock.
TEST(Damage, IsReportedByTheCallThatFindsIt) {
  const auto damaged = [](void* (*allocate)(size_t)) {
    std::vector<void*> blocks;
    for (int i = 0; i < 6; i++) blocks.push_back(allocate(220));
    for (int i = 0; i < 5; i++) near_free(blocks[static_cast<size_t>(i)]);
    overwrite(static_cast<char*>(blocks[3]));
    const std::string said = said_of([&] {
      for (size_t i = 0; i < 2'000; i++) blocks.push_back(allocate(220));
    });
    EXPECT_NE(said.find("invalid free list at"), std::string::npos) << said;
    EXPECT_NE(said.find("into a block of 224 bytes"), std::string::npos) << said;
    for (size_t i = 5; i < blocks.size(); i++) near_free(blocks[i]);
    return said;
  };
  EXPECT_NE(damaged(near_malloc).find("this thread's"), std::string::npos);
  const auto on_node = [](size_t size) { return near_malloc_on_node(size, 0, 0); };
  EXPECT_NE(damaged(on_node).find("shared by threads"), std::string::npos);
  EXPECT_EQ(near_check(), 0u);
}

TEST(Damage, AWrongFreeNamesTheHeapOfTheSpan) {
  const auto expect_owner = [](char* block, const char* owner) {
    const std::string said = said_of([&] { near_free(block + 16); });
    EXPECT_NE(said.find("it is not the start of a block"), std::string::npos) << said;
    EXPECT_NE(said.find("it is 16 bytes into a"), std::string::npos) << said;
    EXPECT_NE(said.find(owner), std::string::npos) << said;
  };
  const auto make = [](size_t size) { return static_cast<char*>(near_malloc(size)); };
  char* mine = make(200);
  expect_owner(mine, ", this thread's\n");
  char* others = nullptr;
  std::thread([&] {
    others = make(200);
    std::thread([&] { expect_owner(others, ", another thread's\n"); }).join();
  }).join();
  expect_owner(others, ", without a thread\n");
  auto* placed = static_cast<char*>(near_malloc_on_node(200, 0, 0));
  expect_owner(placed, ", shared by threads\n");
  char* large = make(100'000);
  expect_owner(large, "into a large block of 100000 bytes");
  for (char* block : {mine, others, placed, large}) near_free(block);
}

TEST(Damage, IsReportedByATrim) {
  std::vector<void*> blocks;
  for (int i = 0; i < 6; i++) blocks.push_back(near_malloc(300));
  for (int i = 0; i < 5; i++) near_free(blocks[static_cast<size_t>(i)]);
  overwrite(static_cast<char*>(blocks[1]));
  const std::string said = said_of([] { near_malloc_trim(0); });
  EXPECT_NE(said.find("invalid free list at"), std::string::npos) << said;
  near_free(blocks[5]);
  EXPECT_EQ(near_check(), 0u);
}

}  // namespace
}  // namespace near_test
