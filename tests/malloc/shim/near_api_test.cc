// The near_* functions that do more than call front/: the standards' corner cases, options,
// facts.
#include <gtest/gtest.h>
#include <malloc.h>
#include <nearmalloc/nearmalloc.h>

#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string>

#include "support/cases.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

TEST(NearApi, PosixMemalignReportsByValue) {
  void* out = &out;
  errno = 77;
  for (const size_t wrong : {size_t{0}, size_t{1}, size_t{4}, size_t{12}, size_t{24}, size_t{65}}) {
    EXPECT_EQ(near_posix_memalign(&out, wrong, 10), EINVAL) << wrong;
    EXPECT_EQ(out, &out);
    count_cases();
  }
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(near_posix_memalign(&out, 8, SIZE_MAX), ENOMEM);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(out, &out);
  errno = 77;
  EXPECT_EQ(near_posix_memalign(&out, 256, 10), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(out) % 256, 0u);
  EXPECT_EQ(errno, 77);
  near_free(out);
}

TEST(NearApi, AlignedFunctionsFollowTheirStandards) {
  errno = 0;
  EXPECT_EQ(near_aligned_alloc(24, 48), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(near_aligned_alloc(0, 48), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* rounded = near_memalign(24, 10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(rounded) % 32, 0u);
  errno = 0;
  EXPECT_EQ(near_memalign(SIZE_MAX, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  near_free(rounded);
  for (const size_t page : {size_t{4096}, size_t{16'384}, size_t{65'536}}) {
    const fake_os::PageSize pages(page);
    void* block = near_valloc(1);
    void* whole = near_pvalloc(page + 1);
    void* empty = near_pvalloc(0);
    for (void* each : {block, whole, empty}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(each) % page, 0u);
    }
    EXPECT_GE(near_malloc_usable_size(whole), 2 * page);
    EXPECT_GE(near_malloc_usable_size(empty), page);
    for (void* each : {block, whole, empty}) near_free(each);
    count_cases();
  }
  errno = 0;
  EXPECT_EQ(near_pvalloc(SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(NearApi, ReallocHasItsCornerCases) {
  void* block = near_realloc(nullptr, 10);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(near_realloc(block, 0), nullptr);
  block = near_malloc(10);
  errno = 0;
  EXPECT_EQ(near_reallocarray(block, SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  block = near_reallocarray(block, 10, 10);
  EXPECT_GE(near_malloc_usable_size(block), 100u);
  near_free_sized(block, 100);
  near_free_sized(nullptr, 5);
  near_free(nullptr);
  near_free_aligned_sized(near_aligned_alloc(64, 100), 64, 100);
  count_cases(4);
}

TEST(NearApi, ABatchIsFreedLikeEachOfItsBlocks) {
  near_stats before;
  near_get_stats(&before);
  void* blocks[] = {near_malloc(100),       nullptr, near_malloc(10'000'000),
                    near_calloc(3, 20'000), nullptr, near_aligned_alloc(4096, 100)};
  errno = 77;
  const size_t groups = near_free_batch(blocks, std::size(blocks));
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(groups, 4u) << "one large block, and three spans";
  near_stats after;
  near_get_stats(&after);
  EXPECT_EQ(after.large_blocks, before.large_blocks);
  EXPECT_EQ(after.free_batches, before.free_batches + 1);
  EXPECT_EQ(after.free_batch_blocks, before.free_batch_blocks + 4);
  EXPECT_EQ(after.free_batch_groups, before.free_batch_groups + groups);
  EXPECT_EQ(near_check(), 0u);
  count_cases(4);
}

TEST(NearApi, OptionsAreReachedByName) {
  long before = 0;
  ASSERT_EQ(near_get_option("decay_ms", &before), 0);
  EXPECT_EQ(near_set_option("decay_ms", 321), 0);
  long now = 0;
  EXPECT_EQ(near_get_option("decay_ms", &now), 0);
  EXPECT_EQ(now, 321);
  EXPECT_EQ(near_set_option("decay_ms", -5), EINVAL);
  EXPECT_EQ(near_set_option("nothing", 5), EINVAL);
  EXPECT_EQ(near_get_option("nothing", &now), EINVAL);
  EXPECT_EQ(now, 321);
  EXPECT_EQ(near_set_option("decay_ms", before), 0);
  count_cases(5);
}

TEST(NearApi, TheVersionIsThatOfTheHeader) {
  EXPECT_EQ(near_version(), std::to_string(NEAR_VERSION_MAJOR) + "." +
                                std::to_string(NEAR_VERSION_MINOR) + "." +
                                std::to_string(NEAR_VERSION_PATCH));
  count_cases();
}

TEST(NearApi, FactsAgreeWithEachOther) {
  void* large = near_malloc(10'000'000);
  void* small = near_malloc(10);
  near_stats stats;
  near_get_stats(&stats);
  EXPECT_GE(stats.large, 10'000'000u);
  EXPECT_GE(stats.in_spans, stats.large);
  EXPECT_GE(stats.committed, stats.in_spans + stats.dirty);
  EXPECT_GE(stats.reserved, stats.committed);
  EXPECT_GE(stats.heaps, 1u);
  EXPECT_GE(stats.nodes, 1u);
  const struct mallinfo2 wide = near_mallinfo2();
  EXPECT_EQ(wide.arena + wide.hblkhd, stats.committed);
  EXPECT_EQ(wide.hblkhd, stats.large);
  EXPECT_EQ(wide.uordblks + wide.hblkhd, stats.in_spans);
  EXPECT_EQ(wide.uordblks + wide.fordblks, wide.arena);
  EXPECT_EQ(near_mallinfo().arena, static_cast<int>(wide.arena));
  EXPECT_EQ(near_owns(large), 1);
  EXPECT_EQ(near_owns(small), 1);
  EXPECT_EQ(near_owns(&stats), 0);
  EXPECT_EQ(near_node_of(&stats), -1);
  EXPECT_GE(near_node_of(small), 0);
  EXPECT_EQ(near_node_of(static_cast<char*>(small) + 5), near_node_of(small));
  near_free(large);
  near_free(small);
  count_cases(10);
}

TEST(NearApi, ReportsAreWritten) {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  EXPECT_EQ(near_malloc_info(1, stream), EINVAL);
  EXPECT_EQ(near_malloc_info(0, stream), 0);
  std::fclose(stream);
  EXPECT_EQ(std::string(text, 9), "<malloc v");
  std::free(text);
  testing::internal::CaptureStderr();
  near_malloc_stats();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find(std::string("nearmalloc ") + near_version() + ":"), 0u) << said;
  EXPECT_EQ(near_mallopt(M_MMAP_THRESHOLD, 1), 1);
  EXPECT_EQ(near_mallopt(-1'000, 1), 0);
  count_cases(4);
}

}  // namespace
}  // namespace near_test
