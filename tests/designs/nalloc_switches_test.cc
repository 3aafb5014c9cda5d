// Each switch that stands for an optimization of the page on nalloc: the default and the ablation
// differ in a counter, and in what the allocator does. nalloc0 has those of pages, nalloc all.
// Invariant: each case runs in a process of its own, so counters start at zero.
// Thread-safety: only the thread that runs the test uses it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "base/bits.h"
#include "designs/counters.h"
#include "designs/nalloc/nalloc.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::align_down;
using near::align_up;
using near::design::nalloc::class_of;
using near::design::nalloc::kLargest;
using near::design::nalloc::kPage;
using near::design::nalloc::Nalloc;
using near::design::nalloc::page_of;
using near::design::nalloc::settings;

// True if the environment asks for the switch, whatever the design made of it.
bool asked(std::string_view entry) {
  const char* options = getenv("NEARMALLOC_DESIGN_OPTIONS");
  return std::string_view(options != nullptr ? options : "").find(entry) != std::string_view::npos;
}

size_t asked_batch() { return asked("batch=1,") ? 1 : asked("batch=64") ? 64 : 16; }

TEST(NallocSwitches, AHeapTakesABatchOfPagesAtATime) {
  ASSERT_NE(Nalloc::allocate(64), nullptr);
  // The chunk's links, the heap, and the block's page.
  EXPECT_EQ(counter("pages_taken"), align_up(size_t{3}, asked_batch()));
  for (int i = 0; i < 500; i++) ASSERT_NE(Nalloc::allocate(1000), nullptr);
  const size_t batches = counter("pages_taken") / asked_batch();
  EXPECT_EQ(counter("page_batches"), batches);
  EXPECT_GT(counter("pages_taken"), 100U);
  count_cases();
}

TEST(NallocSwitches, BatchesAreResidentAtOnceIfTheSwitchSaysSo) {
  for (int i = 0; i < 300; i++) ASSERT_NE(Nalloc::allocate(1000), nullptr);
  EXPECT_EQ(counter("pages_populated"), asked("populate=on") ? counter("pages_taken") : 0);
  count_cases();
}

TEST(NallocSwitches, ThePageOfABlockIsFoundByBitsOrByDivision) {
  const bool division = asked("align=division");
  EXPECT_EQ(counter("page_divisor"), division ? kPage : 0);
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  for (int i = 0; i < 300; i++) {
    void* block = Nalloc::allocate(1000);
    ASSERT_EQ(address(page_of(block)), align_down(address(block), kPage));
  }
  // Another divisor gives another result if there is a division, and none otherwise.
  const size_t before = settings.divisor;
  settings.divisor = division ? 2 * kPage : 0;
  const auto* odd = reinterpret_cast<const char*>(3 * kPage + 100);
  EXPECT_EQ(address(page_of(odd)), division ? 2 * kPage : 3 * kPage);
  settings.divisor = before;
  count_cases(300);
}

#if NEAR_TEST_SLABS
TEST(NallocSwitches, TheClassOfASizeIsComputedOrReadFromATable) {
  using near::design::nalloc::chosen_class_of;
  using near::design::nalloc::class_table;
  const bool table = asked("classes=table");
  EXPECT_EQ(counter("class_table_bytes"), table ? kLargest / 16 + 1 : 0);
  for (size_t size = 0; size <= kLargest; size++) {
    ASSERT_EQ(chosen_class_of(size), class_of(size)) << size;
  }
  class_table[4] = static_cast<uint8_t>(class_of(256));  // wrong, and seen only through the table
  EXPECT_EQ(Nalloc::usable_size(Nalloc::allocate(64)), table ? 256U : 64U);
  count_cases(static_cast<int>(kLargest));
}
#endif

}  // namespace
}  // namespace near_test
