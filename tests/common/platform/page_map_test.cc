// What the kernel's page table and list of mappings say about memory whose state is known.
#include "platform/page_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "platform/mappings.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::kilobytes_of;
using near::LineReader;
using near::Mapping;
using near::Mappings;
using near::PageMap;
using near::PageRange;

// Pages of small size with gaps between the written ones, as many as several batches.
class Pages {
 public:
  static constexpr size_t kCount = 1000;

  Pages() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* start =
        mmap(nullptr, kCount * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(start, MAP_FAILED);
    madvise(start, kCount * page_, MADV_NOHUGEPAGE);
    start_ = static_cast<char*>(start);
  }
  ~Pages() { munmap(start_, kCount * page_); }

  char* at(size_t index) const { return start_ + index * page_; }
  uintptr_t address(size_t index) const { return reinterpret_cast<uintptr_t>(at(index)); }
  size_t size() const { return page_; }

 private:
  size_t page_;
  char* start_;
};

TEST(PageMap, FindsThePagesThatWereWritten) {
  const Pages pages;
  PageMap map;
  ASSERT_TRUE(map.is_open());
  EXPECT_EQ(map.resident(pages.address(0), pages.address(Pages::kCount)), 0U);
  for (size_t i = 0; i < Pages::kCount; i += 3) *pages.at(i) = 1;
  size_t next = 0;
  map.for_each_resident(pages.address(0), pages.address(Pages::kCount), [&](PageRange range) {
    EXPECT_EQ(range.start, pages.address(next));
    EXPECT_EQ(range.end, pages.address(next + 1));
    next += 3;
  });
  EXPECT_EQ(next, 1002U);
  EXPECT_EQ(map.resident(pages.address(1), pages.address(3)), 0U);
  count_cases();
}

TEST(PageMap, ForgetsPagesThatWereGivenBack) {
  const Pages pages;
  PageMap map;
  memset(pages.at(0), 1, 10 * pages.size());
  EXPECT_EQ(map.resident(pages.address(0), pages.address(Pages::kCount)), 10 * pages.size());
  madvise(pages.at(2), 4 * pages.size(), MADV_DONTNEED);
  EXPECT_EQ(map.resident(pages.address(0), pages.address(Pages::kCount)), 6 * pages.size());
  count_cases();
}

TEST(Mappings, KnowNameAndResidentSize) {
  const Pages pages;
  mprotect(pages.at(500), pages.size(), PROT_READ);  // a mapping of its own on either side
  memset(pages.at(501), 1, 7 * pages.size());
  bool found = false;
  bool found_stack = false;
  bool found_file = false;
  Mappings mappings(true);
  Mapping mapping;
  uintptr_t end = 0;
  while (mappings.next(mapping)) {
    EXPECT_GE(mapping.start, end);
    EXPECT_GT(mapping.end, mapping.start);
    end = mapping.end;
    if (mapping.start == pages.address(501)) {
      found = true;
      EXPECT_GE(mapping.resident, 7 * pages.size());
      EXPECT_EQ(mapping.file, 0U);
      EXPECT_FALSE(mapping.shared);
      EXPECT_STREQ(mapping.name, "");
    }
    // Under qemu-user the list is the emulator's: a stack is in it, but this thread's has no name.
    if (strcmp(mapping.name, "[stack]") == 0) found_stack = mapping.resident > 0;
    if (mapping.contains(reinterpret_cast<const void*>(&kilobytes_of))) {
      found_file = mapping.file != 0 && mapping.name[0] == '/';
    }
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(found_stack);
  EXPECT_TRUE(found_file);
  count_cases();
}

TEST(Mappings, CheapListHasTheSameMappings) {
  Mappings cheap(false);
  Mapping mapping;
  bool found = false;
  while (cheap.next(mapping)) found = found || mapping.contains(&mapping);
  EXPECT_TRUE(found);
  count_cases();
}

TEST(Mappings, LongLinesAreCut) {
  LineReader lines("/proc/self/status");
  const char* first = lines.next();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(strncmp(first, "Name:", 5), 0);
  while (const char* line = lines.next()) EXPECT_LT(strlen(line), 256U);
  EXPECT_EQ(lines.next(), nullptr);
  count_cases();
}

TEST(Mappings, MissingFilesAreEmpty) {
  LineReader none("/proc/self/no_such_file");
  EXPECT_FALSE(none.is_open());
  EXPECT_EQ(none.next(), nullptr);
  EXPECT_EQ(kilobytes_of("/proc/self/no_such_file", "Rss:"), 0U);
  EXPECT_GT(kilobytes_of("/proc/self/status", "VmRSS:"), 0U);
  count_cases();
}

}  // namespace
}  // namespace near_test
