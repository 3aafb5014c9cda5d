// What the allocator says about itself: usable sizes, mallinfo, malloc_info, malloc_trim,
// malloc_stats, mallopt, near_*.
// Source: glibc's manual; nearmalloc.h for what only nearmalloc promises.
#include <unistd.h>

#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "support/proc_self.h"
#include "support/suite.h"

namespace near_test {
namespace {

template <typename Api>
class Introspection : public AllocatorTest<Api> {};
TYPED_TEST_SUITE(Introspection, ApisUnderTest);

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using FilePointer = std::unique_ptr<FILE, CloseFile>;

std::string text_of(FILE* file) {
  std::string text;
  char buffer[512];
  std::rewind(file);
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, got);
  return text;
}

// True if every tag that opens closes, in order, inside one root element, and attributes have
// quotes.
bool is_well_formed(std::string_view xml, std::string* why) {
  std::vector<std::string> open;
  size_t elements = 0;
  while (true) {
    const size_t start = xml.find('<');
    if (start == std::string_view::npos) break;
    const size_t end = xml.find('>', start);
    if (end == std::string_view::npos) return *why = "a tag does not end", false;
    const std::string_view tag = xml.substr(start + 1, end - start - 1);
    xml.remove_prefix(end + 1);
    if (tag.empty() || tag.front() == '?') continue;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return *why = std::string(tag), false;
    if (std::count(tag.begin(), tag.end(), '=') * 2 != std::count(tag.begin(), tag.end(), '"')) {
      return *why = std::string(tag), false;
    }
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1))
        return *why = "unexpected " + std::string(tag), false;
      open.pop_back();
      continue;
    }
    if (open.empty() && ++elements > 1) return *why = "two roots", false;
    if (tag.back() != '/') open.emplace_back(tag.substr(0, tag.find_first_of(" \t\n")));
  }
  *why = open.empty() ? "no element" : "not closed: " + open.back();
  return open.empty() && elements == 1;
}

// Runs `action` with the standard error in a file, and returns what it wrote.
template <typename Action>
std::string captured_stderr(Action action) {
  const FilePointer file(std::tmpfile());
  std::fflush(stderr);
  const int saved = dup(STDERR_FILENO);
  dup2(fileno(file.get()), STDERR_FILENO);
  action();
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  return text_of(file.get());
}

TYPED_TEST(Introspection, EveryUsableByteIsTheCallers) {
  std::vector<std::pair<char*, size_t>> live;
  for (const size_t size : ladder(4 * kMiB)) {
    for (int copy = 0; copy < 3; ++copy) {
      auto* block = static_cast<char*>(TypeParam::malloc(size));
      const size_t usable = TypeParam::malloc_usable_size(block);
      ASSERT_GE(usable, size);
      fill(block, usable, address(block));
      live.emplace_back(block, usable);
    }
  }
  for (const auto& [block, usable] : live) {
    EXPECT_TRUE(holds(block, usable, address(block))) << usable;
    EXPECT_EQ(TypeParam::malloc_usable_size(block), usable);
    TypeParam::free(block);
    count_cases();
  }
}

TYPED_TEST(Introspection, ABlockThatWasJustFreedHasNoUsableBytes) {
  if (!on_nearmalloc()) GTEST_SKIP() << "a promise of nearmalloc.h";
  for (const size_t size : ladder(4 * kMiB)) {
    void* block = TypeParam::malloc(size);
    void* behind = TypeParam::malloc(size);
    TypeParam::free(block);
    EXPECT_EQ(TypeParam::malloc_usable_size(block), 0u) << size;
    EXPECT_GE(TypeParam::malloc_usable_size(behind), size);
    TypeParam::free(behind);
    count_cases();
  }
}

TYPED_TEST(Introspection, MallinfoFollowsWhatLives) {
  constexpr size_t kBlocks = 64 * 1024;
  constexpr size_t kSize = 1000;
  std::vector<void*> blocks(kBlocks);
  const auto before = TypeParam::mallinfo2();
  for (void*& block : blocks) block = TypeParam::malloc(kSize);
  const auto during = TypeParam::mallinfo2();
  for (void* block : blocks) TypeParam::free(block);
  const auto after = TypeParam::mallinfo2();
  EXPECT_GE(during.uordblks, before.uordblks + kBlocks * kSize);
  EXPECT_LE(during.uordblks, before.uordblks + kBlocks * kSize * 5 / 4 + kMiB);
  EXPECT_LE(after.uordblks, before.uordblks + kBlocks * kSize / 8);
  for (const auto& info : {before, during, after}) {
    EXPECT_GE(info.arena + info.hblkhd, info.uordblks);
    EXPECT_GE(info.arena, info.fordblks);
    count_cases();
  }
}

// Programs add uordblks and hblkhd to learn what is in use, and arena and hblkhd to learn what the
// allocator got from the system.
TYPED_TEST(Introspection, MallinfoCountsALargeBlockOnce) {
  constexpr size_t kSize = 40 * kMiB;
  const auto before = TypeParam::mallinfo2();
  void* block = TypeParam::malloc(kSize);
  const auto during = TypeParam::mallinfo2();
  TypeParam::free(block);
  for (const auto& info : {before, during}) {
    EXPECT_EQ(info.uordblks + info.fordblks, info.arena);
    count_cases();
  }
  const size_t used = before.uordblks + before.hblkhd + kSize;
  EXPECT_GE(during.uordblks + during.hblkhd, used);
  EXPECT_LE(during.uordblks + during.hblkhd, used + 4 * kMiB);
  EXPECT_LE(during.arena, before.arena + 4 * kMiB);
}

TYPED_TEST(Introspection, MallinfoSeesLargeBlocks) {
  constexpr size_t kSize = 40 * kMiB;
  const auto before = TypeParam::mallinfo2();
  void* block = TypeParam::malloc(kSize);
  const auto during = TypeParam::mallinfo2();
  TypeParam::free(block);
  const auto after = TypeParam::mallinfo2();
  EXPECT_GE(during.hblks, before.hblks + 1);
  EXPECT_GE(during.hblkhd, before.hblkhd + kSize);
  EXPECT_LE(during.hblkhd, before.hblkhd + kSize + 4 * kMiB);
  EXPECT_EQ(after.hblks, before.hblks);
  EXPECT_EQ(after.hblkhd, before.hblkhd);
  count_cases(3);
}

TYPED_TEST(Introspection, MallinfoSaturatesWhereItsFieldsAreTooSmall) {
  if (!on_nearmalloc()) GTEST_SKIP() << "glibc's wraps around";
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(TypeParam::malloc(size_t{1} << 30));
  if (blocks.back() == nullptr) GTEST_SKIP() << "no 3 GiB of address space to commit";
  const auto info = TypeParam::mallinfo();
  const auto wide = TypeParam::mallinfo2();
  EXPECT_EQ(info.hblkhd, INT_MAX);
  EXPECT_GE(wide.hblkhd, size_t{3} << 30);
  EXPECT_GE(info.arena, 0);
  EXPECT_GE(info.uordblks, 0);
  EXPECT_GE(info.fordblks, 0);
  for (void* block : blocks) TypeParam::free(block);
  count_cases(3);
}

TYPED_TEST(Introspection, MallocInfoWritesXml) {
  const FilePointer file(std::tmpfile());
  errno = 0;
  EXPECT_EQ(TypeParam::malloc_info(0, file.get()), 0);
  const std::string xml = text_of(file.get());
  std::string why;
  EXPECT_TRUE(is_well_formed(xml, &why)) << why << "\n" << xml;
  EXPECT_EQ(xml.rfind("<malloc", 0) == 0 || xml.rfind("<?xml", 0) == 0, true) << xml;
  count_cases();
}

// A stream that allocates while it is written to: no lock of the allocator may be held meanwhile.
TYPED_TEST(Introspection, MallocInfoWritesToStreamsThatAllocate) {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  EXPECT_EQ(TypeParam::malloc_info(0, stream), 0);
  std::fclose(stream);
  std::string why;
  EXPECT_TRUE(is_well_formed(std::string_view(text, length), &why)) << why;
  std::free(text);
  count_cases();
}

TYPED_TEST(Introspection, MallocInfoRefusesOptions) {
  const FilePointer file(std::tmpfile());
  for (const int options : {1, -1, 42}) {
    EXPECT_EQ(TypeParam::malloc_info(options, file.get()), EINVAL);
    count_cases();
  }
  EXPECT_EQ(text_of(file.get()), "");
}

TYPED_TEST(Introspection, TrimGivesFreeMemoryBack) {
  constexpr size_t kBlocks = 100'000;
  std::vector<void*> blocks(kBlocks);
  const size_t before = resident_bytes();
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = TypeParam::malloc(1000);
    fill(blocks[i], 1000, i);
  }
  for (void* block : blocks) TypeParam::free(block);
  EXPECT_GE(TypeParam::malloc_trim(0), 0);
  EXPECT_LE(resident_bytes(), before + 8 * kMiB);
  const int again = TypeParam::malloc_trim(0);
  EXPECT_TRUE(again == 0 || again == 1);
  count_cases(2);
}

TYPED_TEST(Introspection, TrimSaysWhetherItReleasedAnything) {
  if (!on_nearmalloc()) GTEST_SKIP() << "a promise of nearmalloc.h";
  void* block = TypeParam::malloc(32 * kMiB);
  memset(block, 1, 32 * kMiB);
  TypeParam::free(block);
  EXPECT_EQ(TypeParam::malloc_trim(0), 1);
  EXPECT_EQ(TypeParam::malloc_trim(0), 0);
  count_cases(2);
}

TYPED_TEST(Introspection, StatsGoToStandardErrorWithoutAllocating) {
  TypeParam::malloc_stats();
  size_t used = 0;
  const std::string text = captured_stderr([&] {
    const size_t before = TypeParam::mallinfo2().uordblks;
    TypeParam::malloc_stats();
    used = TypeParam::mallinfo2().uordblks - before;
  });
  EXPECT_GT(text.size(), 20u);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(used, 0u);
  count_cases();
}

TYPED_TEST(Introspection, MalloptAcceptsGlibcsParameters) {
  for (const int parameter : {M_MXFAST, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                              M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX}) {
    EXPECT_EQ(TypeParam::mallopt(parameter, parameter == M_PERTURB ? 0 : 64), 1) << parameter;
    count_cases();
  }
  if (on_nearmalloc()) {
    EXPECT_EQ(TypeParam::mallopt(12345, 1), 0);
  }
}

TYPED_TEST(Introspection, OwnNamesKnowTheirBlocks) {
  if (!on_nearmalloc()) GTEST_SKIP() << "near_* names";
  const std::string version = std::to_string(NEAR_VERSION_MAJOR) + "." +
                              std::to_string(NEAR_VERSION_MINOR) + "." +
                              std::to_string(NEAR_VERSION_PATCH);
  EXPECT_EQ(near_version(), version);
  int on_stack = 0;
  static int in_data = 0;
  EXPECT_EQ(near_owns(&on_stack), 0);
  EXPECT_EQ(near_owns(&in_data), 0);
  EXPECT_EQ(near_owns(nullptr), 0);
  EXPECT_EQ(near_node_of(&on_stack), -1);
  for (const size_t size : ladder(kLargest)) {
    auto* block = static_cast<char*>(TypeParam::malloc(size));
    EXPECT_EQ(near_owns(block), 1) << size;
    EXPECT_EQ(near_owns(block + size - 1), 1) << size;
    EXPECT_GE(near_node_of(block), 0) << size;
    TypeParam::free(block);
    count_cases();
  }
}

TYPED_TEST(Introspection, OwnStatisticsAddUp) {
  if (!on_nearmalloc()) GTEST_SKIP() << "near_* names";
  void* block = TypeParam::malloc(10 * kMiB);
  memset(block, 1, 10 * kMiB);
  near_stats stats{};
  near_get_stats(&stats);
  EXPECT_GE(stats.reserved, stats.committed);
  EXPECT_GE(stats.committed, stats.in_spans);
  EXPECT_GE(stats.large, 10 * kMiB);
  EXPECT_GE(stats.nodes, 1u);
  EXPECT_GE(stats.heaps, 1u);
  EXPECT_GE(stats.heaps, stats.heaps_parked);
  EXPECT_GE(stats.commit_calls, 1u);
  TypeParam::free(block);
  TypeParam::malloc_trim(0);
  near_stats later{};
  near_get_stats(&later);
  EXPECT_LE(later.large + 10 * kMiB, stats.large);
  EXPECT_GT(later.purged, stats.purged);
  count_cases(2);
}

}  // namespace
}  // namespace near_test
