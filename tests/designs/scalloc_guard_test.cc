// The system calls of scalloc's spans, and the memory behind them: ctest runs these tests once for
// each kind of guard, each in a process of its own. [Aigner15 §3.2]
// Thread-safety: only the thread that runs the test uses it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "designs/counters.h"
#include "designs/scalloc/scalloc.h"
#include "designs/scalloc/span_pool.h"
#include "platform/os.h"
#include "support/cases.h"
#include "support/fake_os.h"
#include "support/forked.h"

namespace near_test {
namespace {

using namespace near::design::scalloc;

constexpr size_t kPage = 4096;

// Whether a byte can be written there. It asks the kernel, which does not fault.
bool is_accessible(const void* address) {
  const int zeroes = open("/dev/zero", O_RDONLY);
  const bool read_one = read(zeroes, const_cast<void*>(address), 1) == 1;
  close(zeroes);
  return read_one;
}

bool kernel_has_markers() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool has = madvise(page, kPage, 102) == 0;
  munmap(page, kPage);
  return has;
}

bool spans_are_guarded() {
  return settings.guard == Guard::mprotect ||
         (settings.guard == Guard::markers && kernel_has_markers());
}

size_t real_span(unsigned size_class) {
  return near::align_up(kSizeClasses[size_class].real_span, near::os::page_size());
}

std::vector<void*> take(size_t count, unsigned size_class) {
  std::vector<void*> blocks(count);
  for (void*& block : blocks) {
    block = Scalloc::allocate(kSizeClasses[size_class].size);
    memset(block, 1, kSizeClasses[size_class].size);
  }
  return blocks;
}

void give(const std::vector<void*>& blocks) {
  for (void* block : blocks) Scalloc::deallocate(block);
}

void expect_to_end_at_its_real_span(const void* block, unsigned size_class) {
  const char* start = reinterpret_cast<const char*>(span_of(block));
  const size_t end = real_span(size_class);
  EXPECT_TRUE(is_accessible(start + end - 1)) << "class " << size_class;
  const bool guarded = spans_are_guarded();
  for (const size_t behind : {end, end + kPage, 2 * near::kMiB - 1}) {
    EXPECT_EQ(is_accessible(start + behind), !guarded)
        << "class " << size_class << ", byte " << behind;
    count_cases();
  }
  // Marks end with the first 2 MiB.
  const bool to_the_end =
      guarded && (settings.guard == Guard::mprotect || settings.virtual_span == 2 * near::kMiB);
  EXPECT_EQ(is_accessible(start + settings.virtual_span - 1), !to_the_end);
}

class ScallocGuard : public testing::Test {
 protected:
  static void SetUpTestSuite() { Scalloc::deallocate(Scalloc::allocate(1)); }
};

// "No repeated system calls upon every span allocation." [Aigner15 §3.2]
TEST_F(ScallocGuard, FreshSpansCostFewSystemCalls) {
  const Rise fresh("spans from the arena");
  const Rise batches("batches of fresh spans");
  const Rise moved("guards moved");
  const uint64_t commits = fake_os::calls(OsCall::commit);
  const std::vector<void*> blocks = take(96 * near::kMiB / 64, 4);
  EXPECT_GT(fresh(), 2900u);
  EXPECT_LE(fake_os::calls(OsCall::commit) - commits, 50u);
  EXPECT_LE(batches(), 50u);
  EXPECT_EQ(moved(), settings.guard == Guard::mprotect ? fresh() : 0u);
  give(blocks);
  count_cases(blocks.size());
}

TEST_F(ScallocGuard, WhatIsBehindARealSpanFaults) {
  for (unsigned size_class = 1; size_class < kClasses; size_class++) {
    const std::vector<void*> blocks = take(1, size_class);
    expect_to_end_at_its_real_span(blocks[0], size_class);
    give(blocks);
  }
}

// Spans go from large real spans to small ones and back.
TEST_F(ScallocGuard, WhatIsBehindARealSpanFaultsInReuse) {
  const Rise moved("guards moved");
  std::set<const Span*> spans;
  for (const unsigned size_class : {28u, 3u, 20u, 24u, 16u, 28u, 17u, 1u}) {
    const std::vector<void*> blocks = take(6 * kSizeClasses[size_class].blocks, size_class);
    const void* seen = nullptr;
    for (const void* block : blocks) {
      if (span_of(block) == seen) continue;
      seen = span_of(block);
      spans.insert(span_of(block));
      expect_to_end_at_its_real_span(block, size_class);
    }
    give(blocks);
  }
  EXPECT_LT(spans.size(), 6 * 8u) << "spans were used again";
  EXPECT_GE(moved(), spans_are_guarded() ? 10u : 0u);
}

TEST_F(ScallocGuard, SpansLieAsFarApartAsTheSwitchSays) {
  std::set<const Span*> spans;
  std::vector<void*> blocks = take(10, 28);
  for (void* block : blocks) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(span_of(block)) % settings.virtual_span, 0u);
    spans.insert(span_of(block));
  }
  EXPECT_EQ(spans.size(), blocks.size());
  for (const Span* span : spans) {
    auto* inside = reinterpret_cast<const char*>(span) + settings.virtual_span - 1;
    EXPECT_EQ(span_of(inside), span);
    count_cases();
  }
  give(blocks);
}

// From here on process_madvise answers as on a kernel without it.
bool refuse_process_madvise() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_madvise, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(ScallocGuard, AKernelWithoutMarksServesAllTheSame) {
  const std::vector<void*> before = take(4, 28);  // guarded
  const int status = run_in_child([&] {
    if (!refuse_process_madvise()) return 2;
    give(before);
    for (const unsigned size_class : {1u, 20u, 28u, 3u, 28u}) {
      give(take(20 * kSizeClasses[size_class].blocks, size_class));
    }
    return counter("batches of fresh spans") > 4 ? 0 : 1;
  });
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no filter of system calls here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  give(before);
  count_cases();
}

}  // namespace
}  // namespace near_test
