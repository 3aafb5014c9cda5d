// A node of several shards: which one serves a request, and what shards lend each other.
#include "node/node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "heap/registry.h"
#include "node/memory.h"
#include "node/purge_signal.h"
#include "platform/options.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/region_room.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kChunkSlices;
using near::kSliceSize;
using near::Shard;
using near::Span;

class NodeOfShards : public testing::Test {
 protected:
  static constexpr unsigned kShards = 3;

  NodeOfShards() {
    near::purge_signal.set_present(true);
    near::set_option("dirty_mib", 1024);  // no shard purges by itself
    node_.init(0, kShards);
    node_.shard(0).add(&rooms_[0].region());
    for (unsigned i = 1; i < kShards; i++) {
      more_.push_back(std::make_unique<Shard>());
      more_.back()->add(&rooms_[i].region());
      node_.add(*more_.back());
    }
  }
  ~NodeOfShards() override {
    near::purge_signal.set_present(false);
    near::set_option("dirty_mib", kept_dirty_);
    fake_os::fail_none();
    fake_os::set_commit_limit(SIZE_MAX);
    EXPECT_EQ(node_.check(), 0u);
  }

  Span* take(unsigned shard, uint32_t slices) {
    bool zero = false;
    return node_.take(node_.shard(shard), {slices}, zero);
  }
  // The number of the shard whose region the span lies in.
  unsigned shard_of(const Span* span) {
    unsigned number = 0;
    while (&rooms_[number].region() != span->region) number++;
    return number;
  }
  void give(Span* span) { node_.shard(shard_of(span)).give(span); }

  const long kept_dirty_ = near::option(near::Option::dirty_mib);
  near::Node node_;
  std::vector<std::unique_ptr<Shard>> more_;
  RegionRoom rooms_[kShards] = {RegionRoom(16), RegionRoom(16), RegionRoom(16)};
};

TEST_F(NodeOfShards, EachServesItsOwnUsers) {
  for (unsigned i = 0; i < kShards; i++) {
    EXPECT_EQ(shard_of(take(i, 1)), i);
    EXPECT_EQ(shard_of(take(i, near::kMostSharded)), i);
    count_cases();
  }
}

TEST_F(NodeOfShards, RunsAboveFourMebibytesComeFromTheFirst) {
  for (unsigned i = 0; i < kShards; i++) {
    EXPECT_EQ(shard_of(take(i, near::kMostSharded + 1)), 0u);
    count_cases();
  }
}

// Memory that its shard needs every now and then is not lent; memory that was unneeded for a whole
// round of the purge thread is, before another shard maps more.
TEST_F(NodeOfShards, MemoryIsLentAfterARoundInWhichItWasNotNeeded) {
  Span* span = take(1, 2 * kChunkSlices);
  give(span);
  EXPECT_EQ(shard_of(take(0, kChunkSlices)), 0u) << "just given back";
  node_.shard(1).count_spare();
  give(take(1, 2 * kChunkSlices));
  node_.shard(1).count_spare();
  EXPECT_EQ(shard_of(take(0, 4 * kChunkSlices)), 0u) << "needed during the round";
  node_.shard(1).count_spare();
  const size_t committed = node_.totals().committed;
  Span* lent = take(2, kChunkSlices);
  EXPECT_EQ(shard_of(lent), 1u);
  EXPECT_EQ(node_.totals().committed, committed);
  give(lent);
  count_cases(3);
}

TEST_F(NodeOfShards, KeptMemoryIsLentAtOnce) {
  node_.keep(8 * near::kMiB);
  give(take(0, 4 * kChunkSlices));
  EXPECT_EQ(shard_of(take(1, kChunkSlices)), 0u);
  count_cases();
}

TEST_F(NodeOfShards, ALenderThatIsBusyIsNotWaitedFor) {
  node_.keep(8 * near::kMiB);
  give(take(0, 4 * kChunkSlices));
  Worker other;
  other([&] { node_.shard(0).lock.lock(); });
  EXPECT_EQ(shard_of(take(1, kChunkSlices)), 1u);
  other([&] { node_.shard(0).lock.unlock(); });
  count_cases();
}

TEST_F(NodeOfShards, AShardWithoutRoomTakesFromAny) {
  while (shard_of(take(2, kChunkSlices)) == 2) count_cases();
  EXPECT_NE(shard_of(take(2, 1)), 2u);
}

TEST_F(NodeOfShards, WhenTheSystemRefusesWhatIsMappedServes) {
  give(take(1, 2 * kChunkSlices));
  fake_os::set_commit_limit(fake_os::committed_bytes());
  EXPECT_EQ(shard_of(take(0, kChunkSlices)), 1u);
  count_cases();
}

// The registry gives each heap the shard with the fewest.
TEST(HeapsOfShards, AreSpread) {
  near::Node& node = near::nodes[0];
  std::vector<near::Heap*> heaps;
  for (int i = 0; i < 8; i++) heaps.push_back(near::take_heap(0));
  EXPECT_EQ(node.shard_count(), node.most_shards()) << "there are at least as many heaps";
  std::vector<uint32_t> counts(node.shard_count());
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    const near::Heap& heap = *near::heap_by_id(id);
    if (heap.node() == 0) counts[heap.shard().number()]++;
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_LE(*most, *least + 1);
  for (near::Heap* heap : heaps) {
    EXPECT_EQ(&heap->shard().node(), &node);
    near::park_heap(heap);
    count_cases();
  }
}

}  // namespace
}  // namespace near_test
