// Statistics by node: the matrix of frees, what a node holds, samples of the kernel's truth, JSON.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "front/thread.h"
#include "heap/registry.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/numa_room.h"
#include "support/said_of.h"
#include "support/threads.h"

namespace near_test {
namespace {

using near::kClasses;
using near::kMiB;
using near::kSizeClasses;
using near::topology;

class NumaLocality : public NumaTest {
 protected:
  void SetUp() override {
    NumaTest::SetUp();
    near_malloc_trim(0);  // so that what earlier tests freed is counted
  }

  // Blocks of node `of` freed by threads of node `by`.
  static uint64_t freed(unsigned of, unsigned by) {
    std::vector<uint64_t> row(topology.count);
    EXPECT_EQ(near_get_freed(of, row.data()), 0);
    return row[by];
  }
  static uint64_t freed_of(unsigned of) {
    std::vector<uint64_t> row(topology.count);
    EXPECT_EQ(near_get_freed(of, row.data()), 0);
    return std::accumulate(row.begin(), row.end(), uint64_t{0});
  }
  static near_node_stats node_stats(unsigned node) {
    near_node_stats stats{};
    EXPECT_EQ(near_get_node_stats(node, &stats), 0);
    return stats;
  }
  static void trim_own_heap() {
    const near::LockGuard guard(near::current_heap->lock);
    near::current_heap->flush();
  }
};

TEST_F(NumaLocality, AFreeOnAnotherNodeIsCountedAtOnce) {
  for (unsigned of = 0; of < topology.count; of++) {
    Worker owner(of);
    for (unsigned by = 0; by < topology.count; by++) {
      std::vector<void*> blocks;
      owner([&] {
        blocks = allocate_many(300);
        blocks.push_back(near_malloc(3 * kMiB));
        blocks.push_back(near_malloc(20'000));
      });
      const uint64_t before = freed(of, by);
      on_cpu(by, [&] {
        near_free(near_malloc(5'000));  // so that it has a heap
        const uint64_t with_heap = freed(of, by);
        const size_t half = blocks.size() / 2;
        for (size_t i = 0; i < half; i++) near_free(blocks[i]);
        EXPECT_EQ(freed(of, by), with_heap + half);
        near_free_batch(&blocks[half], blocks.size() - half);
        EXPECT_EQ(freed(of, by), with_heap + blocks.size()) << "and in batches";
      });
      EXPECT_GE(freed(of, by), before + blocks.size());
      count_cases();
    }
  }
}

TEST_F(NumaLocality, AThreadWithoutAHeapCountsForTheNodeItRunsOn) {
  for (unsigned by = 0; by < topology.count; by++) {
    const auto blocks = allocate_many(300);
    const uint64_t before = freed(0, by);
    on_cpu(by, [&] {
      free_all(blocks);
      EXPECT_FALSE(near::has_heap());
    });
    EXPECT_EQ(freed(0, by), before + blocks.size());
    count_cases();
  }
}

// Once the heap looks at its spans, all frees of own blocks are counted, from hot and cold
// spans.
TEST_F(NumaLocality, LocalFreesAreCountedExactlyWhenTheSpansAreEmpty) {
  for (unsigned node = 0; node < topology.count; node++) {
    on_cpu(node, [&] {
      for (unsigned c = 0; c < kClasses; c++) {
        trim_own_heap();
        const uint64_t before = freed(node, node);
        uint64_t frees = 0;
        for (int round = 0; round < 3; round++) {
          const auto blocks = allocate_many(kSizeClasses[c].size, 400'000);
          for (int i = 0; i < 5'000; i++) near_free(near_malloc(kSizeClasses[c].size));
          free_all(blocks);
          frees += blocks.size() + 5'000;
        }
        trim_own_heap();
        EXPECT_EQ(freed(node, node), before + frees) << "of " << kSizeClasses[c].size;
        count_cases();
      }
    });
  }
}

// Frees into hot spans are counted at once: those of the caller, and those of ended threads.
TEST_F(NumaLocality, FreesIntoHotSpansAreCountedForWhoAsksAndWhoEnded) {
  for (const size_t size : {size_t{16}, size_t{200}, size_t{3'000}, size_t{30'000}}) {
    uint64_t before = 0;
    on_cpu(other_node(), [&] {
      void* held = near_malloc(size);
      for (int i = 0; i < 1'000; i++) near_free(near_malloc(size));
      before = freed(other_node(), other_node());
      for (int i = 0; i < 10; i++) near_free(near_malloc(size));
      EXPECT_EQ(freed(other_node(), other_node()), before + 10) << size;
      for (int i = 0; i < 100; i++) near_free(near_malloc(size));
      near_free(held);
    });
    EXPECT_EQ(freed(other_node(), other_node()), before + 111) << size;
    count_cases(2);
  }
}

TEST_F(NumaLocality, LocalBatchesAreCountedLikeFrees) {
  on_cpu(other_node(), [&] {
    for (const size_t size : {size_t{16}, size_t{200}, size_t{9'000}}) {
      trim_own_heap();
      const uint64_t before = freed(other_node(), other_node());
      const auto blocks = allocate_many(size);
      near_free_batch(blocks.data(), blocks.size());
      trim_own_heap();
      EXPECT_EQ(freed(other_node(), other_node()), before + blocks.size()) << size;
      count_cases();
    }
  });
}

// A heap's spans on another node count for the node where they lie.
TEST_F(NumaLocality, FreesIntoSpilledSpansCountForTheirNode) {
  std::vector<near::Span*> taken;
  bool zero = false;
  while (near::Span* span = near::nodes[0].take(near::nodes[0].shard(0), {1}, zero))
    taken.push_back(span);
  const uint64_t spills = node_stats(0).spills_out;
  const unsigned next = topology.order[0][1];
  const uint64_t served = node_stats(next).spills_in;
  on_cpu(0, [&] {
    trim_own_heap();
    const uint64_t before = freed(next, 0);
    std::vector<void*> blocks;
    for (int i = 0; i < 2'000; i++) blocks.push_back(near_malloc(8'192));
    EXPECT_GT(count_on(blocks, next), 1'000u);
    const size_t spilled = count_on(blocks, next);
    EXPECT_GT(node_stats(0).spills_out, spills);
    EXPECT_EQ(node_stats(next).spills_in - served, node_stats(0).spills_out - spills);
    free_all(blocks);
    trim_own_heap();
    EXPECT_EQ(freed(next, 0), before + spilled);
  });
  for (near::Span* span : taken) near::shard_of(*span).give(span);
  spills_ = stats().spills;
  count_cases(3);
}

TEST_F(NumaLocality, RowsAddUpToAllFrees) {
  std::vector<uint64_t> before;
  for (unsigned n = 0; n < topology.count; n++) before.push_back(freed_of(n));
  std::vector<uint64_t> frees(topology.count);
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned n = 0; n < topology.count; n++) workers.push_back(std::make_unique<Worker>(n));
  for (unsigned i = 0; i < 4 * topology.count; i++) {
    const unsigned of = i % topology.count;
    const unsigned by = (i + i / topology.count) % topology.count;
    std::vector<void*> blocks;
    (*workers[of])([&] { blocks = allocate_many(size_t{100} << (i % 9)); });
    (*workers[by])([&] { free_all(blocks); });
    frees[of] += blocks.size();
    count_cases();
  }
  for (auto& worker : workers) (*worker)([] { trim_own_heap(); });
  for (unsigned n = 0; n < topology.count; n++) EXPECT_EQ(freed_of(n), before[n] + frees[n]) << n;
}

TEST_F(NumaLocality, ANodeTellsWhatItHolds) {
  for (unsigned n = 0; n < topology.count; n++) {
    const near_node_stats before = node_stats(n);
    EXPECT_EQ(before.node, topology.kernel_id[n]);
    on_cpu(n, [&] {
      const auto blocks = allocate_many(1'000);
      const near_node_stats now = node_stats(n);
      EXPECT_GE(now.in_spans, before.in_spans + kMiB - near::kSliceSize);
      EXPECT_GE(now.committed, now.in_spans + now.dirty);
      EXPECT_GE(now.reserved, now.committed);
      EXPECT_GE(now.heaps, 1u);
      free_all(blocks);
      EXPECT_GE(node_stats(n).cached, near::kSliceSize) << "of the spans that were empty last";
      trim_own_heap();
      EXPECT_LE(node_stats(n).cached, now.cached);
    });
    count_cases();
  }
  near_node_stats none{};
  EXPECT_EQ(near_get_node_stats(topology.count, &none), EINVAL);
  EXPECT_EQ(near_get_freed(topology.count, nullptr), EINVAL);
}

TEST_F(NumaLocality, NodesAddUpToTheTotals) {
  for (unsigned n = 0; n < topology.count; n++) on_cpu(n, [] { free_all(allocate_many(400)); });
  near_node_stats sum{};
  for (unsigned n = 0; n < topology.count; n++) {
    const near_node_stats one = node_stats(n);
    sum.heaps += one.heaps;
    sum.committed += one.committed;
    sum.in_spans += one.in_spans;
    sum.rehomes += one.rehomes;
    sum.adoptions += one.adoptions;
    sum.spills_out += one.spills_out;
    sum.spills_in += one.spills_in;
  }
  const near_stats all = stats();
  EXPECT_EQ(sum.heaps, all.heaps);
  EXPECT_EQ(sum.committed, all.committed);
  EXPECT_EQ(sum.in_spans, all.in_spans);
  EXPECT_EQ(sum.rehomes, all.rehomes);
  EXPECT_EQ(sum.adoptions, all.adoptions);
  EXPECT_EQ(sum.spills_out, all.spills);
  EXPECT_EQ(sum.spills_in, all.spills);
  count_cases(7);
}

TEST_F(NumaLocality, RehomesCountForTheNodeTheThreadCameTo) {
  const uint64_t before = node_stats(other_node()).rehomes;
  on_cpu(0, [&] {
    near_free(near_malloc(1));
    set_cpu(other_node());
    near_free(near_malloc(3 * kMiB));
  });
  EXPECT_EQ(node_stats(other_node()).rehomes, before + 1);
  count_cases();
}

TEST_F(NumaLocality, SamplesTellRightFromWrong) {
  std::vector<char*> blocks;
  for (unsigned n = 0; n < topology.count; n++) {
    on_cpu(n, [&] { blocks.push_back(static_cast<char*>(near_malloc(8 * kMiB))); });
    for (size_t at = 0; at < 2 * kMiB; at += 4096) {
      blocks[n][at] = 1;
      fake_os::move_page(blocks[n] + at, topology.kernel_id[n]);
    }
  }
  const size_t all = 1'000'000;  // more pages than there are
  near_placement found{};
  near_sample_placement(all, &found);
  EXPECT_GE(found.right, topology.count * 512u);
  EXPECT_GE(found.absent, topology.count * 512u) << "never touched";
  EXPECT_EQ(found.refused, 0u);
  const uint64_t wrong = found.wrong;  // heaps' own pages, which are not bound
  for (size_t at = 0; at < kMiB; at += 4096) fake_os::move_page(blocks[1] + at, 0);
  near_placement moved{};
  near_sample_placement(all, &moved);
  EXPECT_EQ(moved.wrong, wrong + 256);
  EXPECT_EQ(moved.right, found.right - 256);
  near_placement some{};
  near_sample_placement(100, &some);
  const uint64_t asked = some.right + some.wrong + some.absent;
  EXPECT_LE(asked, 100u);
  EXPECT_GE(asked, 51u);
  near_placement again{};
  near_sample_placement(100, &again);
  EXPECT_EQ(again.right, some.right);
  EXPECT_EQ(again.absent, some.absent);
  fake_os::fail(OsCall::locate, 1, true);
  near_placement refused{};
  near_sample_placement(100, &refused);
  fake_os::fail_none();
  EXPECT_EQ(refused.refused, asked);
  EXPECT_EQ(refused.right + refused.wrong + refused.absent, 0u);
  near_sample_placement(0, &refused);
  EXPECT_EQ(refused.refused, 0u);
  for (char* block : blocks) near_free(block);
  count_cases(8);
}

size_t times(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

std::string json() {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  EXPECT_EQ(near_stats_json(stream), 0);
  std::fclose(stream);
  const std::string written(text, length);
  std::free(text);
  return written;
}

TEST_F(NumaLocality, JsonHasAnObjectAndARowForEachNode) {
  const std::string text = json();
  EXPECT_EQ(text.front(), '{');
  EXPECT_EQ(text.substr(text.size() - 2), "}\n");
  EXPECT_EQ(times(text, "{"), topology.count + 2);
  EXPECT_EQ(times(text, "{"), times(text, "}"));
  EXPECT_EQ(times(text, "["), topology.count + 2);
  EXPECT_EQ(times(text, "["), times(text, "]"));
  EXPECT_EQ(times(text, "\"node\": "), topology.count);
  EXPECT_EQ(times(text, "\"") % 2, 0u);
  const std::string nodes = "\"totals\": {\"nodes\": " + std::to_string(topology.count) + ", ";
  EXPECT_EQ(times(text, nodes), 1u);
  EXPECT_EQ(times(text, ",,"), 0u);
  EXPECT_EQ(times(text, "\"placement\": null}"), 1u) << "the topology is given: nothing is bound";
  FILE* full = std::fopen("/dev/full", "w");
  std::setvbuf(full, nullptr, _IONBF, 0);
  EXPECT_EQ(near_stats_json(full), EIO);
  std::fclose(full);
  count_cases(9);
}

// As on a real machine when half of a block was placed on another node.
TEST_F(NumaLocality, StatisticsSayWhatTheKernelSays) {
  auto* block = static_cast<char*>(near_malloc(8 * kMiB));
  for (size_t at = 0; at < 8 * kMiB; at += 4096) {
    block[at] = 1;
    const bool here = at < 4 * kMiB;
    fake_os::move_page(block + at, here ? near_node_of(block) : near_node_of(block) + 1);
  }
  topology.real = true;
  const std::string text = json();
  const std::string said = said_of([] { near_malloc_stats(); });
  near_placement found{};
  near_sample_placement(1024, &found);
  topology.real = false;
  const auto field = [](const char* name, uint64_t value) {
    return std::string(", \"") + name + "\": " + std::to_string(value);
  };
  const uint64_t pages = found.right + found.wrong + found.absent + found.refused;
  EXPECT_EQ(
      times(text, "\"placement\": {\"pages\": " + std::to_string(pages) +
                      field("right", found.right) + field("wrong", found.wrong) +
                      field("absent", found.absent) + field("refused", found.refused) + "}}\n"),
      1u)
      << text;
  EXPECT_EQ(times(said, " sampled pages " + std::to_string(found.right) + " are on their node, " +
                            std::to_string(found.wrong) + " are not; "),
            topology.count > 1 ? 1u : 0u)
      << said;
  EXPECT_GT(found.right, 0u);
  EXPECT_GT(found.wrong, 0u);
  near_free(block);
  count_cases(4);
}

TEST_F(NumaLocality, TheSummaryHasTwoLinesForEachNode) {
  const std::string said = said_of([] { near_malloc_stats(); });
  EXPECT_EQ(times(said, " strict requests refused, "), topology.count) << said;
  EXPECT_EQ(times(said, " freed by threads of "), topology.count) << said;
  count_cases();
}

}  // namespace
}  // namespace near_test
