// Every switch of scalloc changes what the paper says it changes: ctest runs these tests once under
// each value, and what is expected follows from the value. [Aigner15 §7.7]
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "designs/counters.h"
#include "designs/scalloc/scalloc.h"
#include "designs/shared/machine.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::design::scalloc;

void in_thread(const std::function<void()>& work) { std::thread(work).join(); }

// Fills a whole span of the class, and has the class go on with another.
std::vector<void*> fill_span(unsigned size_class) {
  const SizeClass& shape = kSizeClasses[size_class];
  std::map<const Span*, std::vector<void*>> spans;
  for (;;) {
    void* block = Scalloc::allocate(shape.size);
    std::vector<void*>& blocks = spans[span_of(block)];
    blocks.push_back(block);
    if (blocks.size() < shape.blocks) continue;
    std::vector<void*> full = blocks;
    while (span_of(block) == span_of(full[0])) block = Scalloc::allocate(shape.size);
    Scalloc::deallocate(block);
    return full;
  }
}

void free_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) Scalloc::deallocate(block);
}

TEST(ScallocSwitches, MadviseGivesBackWhatThePolicySays) {
  in_thread([] {
    for (unsigned size_class = 1; size_class < kClasses; size_class++) {
      const std::vector<void*> blocks = fill_span(size_class);
      for (void* block : blocks) memset(block, 1, kSizeClasses[size_class].size);
      const Rise calls("madvise calls");
      const Rise pooled("spans put in the pool");
      free_all(blocks);
      const bool is_large = kSizeClasses[size_class].real_span > 32 * 1024;
      const bool gives =
          settings.madvise == Madvise::eager || (settings.madvise == Madvise::on && is_large);
      if (settings.reclaim == Reclaim::free) {
        EXPECT_EQ(pooled(), 1u) << "class " << size_class;
        EXPECT_EQ(calls(), gives ? 1u : 0u) << "class " << size_class;
      }
      count_cases();
    }
  });
}

TEST(ScallocSwitches, TheSpanPoolHasAStackForEachCoreOrOne) {
  const size_t kThreads = std::max<size_t>(8, near::design::processors());
  std::atomic<size_t> entered{0};
  run_threads(kThreads, [&](size_t) {
    void* first = Scalloc::allocate(16);
    entered++;
    while (entered.load() < kThreads) std::this_thread::yield();
    free_all(fill_span(16));
    Scalloc::deallocate(first);
  });
  // All of them put spans of the first real-span size.
  const size_t used = used_stacks(0);
  EXPECT_EQ(used, settings.one_stack ? 1u : near::design::processors());
  EXPECT_GE(counter("span-pool stacks used"), used);
  count_cases(kThreads);
}

TEST(ScallocSwitches, AnEmptySpanLeavesAtItsLastFreeOrAtAnAllocation) {
  in_thread([] {
    const std::vector<void*> blocks = fill_span(12);
    const Rise pooled("spans put in the pool");
    const Rise emptied("spans emptied by allocation");
    free_all(blocks);
    const bool at_free = settings.reclaim == Reclaim::free;
    EXPECT_EQ(pooled(), at_free ? 1u : 0u);
    // More than two spans of blocks: the class has to look for a span.
    std::vector<void*> more;
    for (size_t i = 0; i < 2 * kSizeClasses[12].blocks + 1; i++) {
      more.push_back(Scalloc::allocate(kSizeClasses[12].size));
    }
    EXPECT_EQ(emptied(), at_free ? 0u : 1u);
    free_all(more);
    count_cases();
  });
}

TEST(ScallocSwitches, TheThresholdDecidesWhenASpanIsReusable) {
  in_thread([] {
    const auto percent = static_cast<size_t>(switches()[3].value);
    for (const unsigned size_class : {4u, 16u, 17u, 20u, 23u}) {
      const size_t blocks = kSizeClasses[size_class].blocks;
      const size_t threshold = blocks * percent / 100;
      const std::vector<void*> full = fill_span(size_class);
      size_t freed = 0;
      size_t became = 0;
      for (void* block : full) {
        const uint64_t before = counter("reusable spans");
        Scalloc::deallocate(block);
        freed++;
        if (counter("reusable spans") > before) became = freed;
      }
      // More than the threshold, and not all of them, which makes the span free instead.
      const bool never = settings.reclaim == Reclaim::free && threshold + 1 >= blocks;
      const size_t expected = never ? 0 : std::min(threshold + 1, blocks);
      EXPECT_EQ(became, expected) << "class " << size_class;
      count_cases();
    }
  });
}

TEST(ScallocSwitches, ThreadsShareALabOrHaveOneEach) {
  const size_t cores = near::design::processors();
  const size_t threads = 2 * cores;
  std::vector<void*> blocks(threads);
  std::atomic<size_t> entered{0};
  run_threads(threads, [&](size_t i) {
    blocks[i] = Scalloc::allocate(224);
    entered++;
    while (entered.load() < threads) std::this_thread::yield();
  });
  std::set<const Span*> spans;
  for (void* block : blocks) spans.insert(span_of(block));
  EXPECT_EQ(spans.size(), settings.lab == LabModel::clab ? cores : threads);
  free_all(blocks);
  count_cases(threads);
}

// The flags of the mapping that `address` is in, as /proc/self/smaps prints them.
std::string flags_of(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      is_here = from <= at && at < to;
    } else if (is_here && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

TEST(ScallocFront, ThreadsHaveListsInFrontOfTheirLabOrNone) {
  in_thread([] {
    const char* options = getenv("NEARMALLOC_DESIGN_OPTIONS");
    const bool lists = options != nullptr && strstr(options, "frontend=super") != nullptr;
    std::vector<void*> blocks(1000);
    for (void*& block : blocks) block = Scalloc::allocate(64);
    // The thread had no list for its first block; a list has 8 KiB, 128 blocks.
    EXPECT_EQ(counter("front lists filled"), lists ? 8u : 0u);
    EXPECT_EQ(counter("blocks in front lists"), lists ? 8 * 128 - 999u : 0u);
    free_all(blocks);
    EXPECT_EQ(counter("front lists emptied"), lists ? 7u : 0u);
    EXPECT_EQ(counter("blocks in front lists"), lists ? 128 + 1u : 0u);
    Scalloc::trim();
    EXPECT_EQ(counter("blocks in front lists"), 0u);
    void* inner = Scalloc::allocate_aligned(4096, 100);
    Scalloc::deallocate(inner);
    EXPECT_EQ(counter("blocks in front lists"), 0u) << "an inner one goes to its span";
    count_cases(6);
  });
}

TEST(ScallocSwitches, HugePagesAreAskedForOrForbidden) {
  if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
    GTEST_SKIP() << "no huge pages here";
  }
  void* block = Scalloc::allocate(64);
  const std::string flags = flags_of(block);
  EXPECT_EQ(flags.find(" hg ") != std::string::npos, settings.huge_pages) << flags;
  EXPECT_EQ(flags.find(" nh ") != std::string::npos, !settings.huge_pages) << flags;
  Scalloc::deallocate(block);
  count_cases();
}

}  // namespace
}  // namespace near_test
