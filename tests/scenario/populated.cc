// Memory that was made resident ahead of need: malloc then causes no page faults, and it stays.
#include <algorithm>
#include <ctime>
#include <vector>

#include "scenario/scenario.h"

namespace near_test {
namespace {

constexpr size_t kReserve = 200 * kMiB;
constexpr size_t kTaken = 150 * kMiB;
constexpr size_t kMostFaults = kTaken / 4096 / 50;  // of one page in fifty

bool can_populate() { return on_nearmalloc() && near_set_option != nullptr; }

// Takes blocks of all sizes up to 256 KiB, writes every page, frees them; returns the page faults.
size_t faults_of_taking() {
  Random random(seed());
  Mapped<void*> blocks(1'000'000);
  touch(&blocks[0], blocks.size() * sizeof(void*));
  const size_t before = minor_faults();
  size_t count = 0;
  for (size_t bytes = 0; bytes < kTaken; count++) {
    const size_t size = random.size_up_to(18);
    blocks[count] = StandardNames::malloc(size);
    touch(blocks[count], size);
    bytes += std::max<size_t>(size, 16);
  }
  const size_t faults = minor_faults() - before;
  for (size_t i = 0; i < count; i++) StandardNames::free(blocks[i]);
  count_cases(count);
  return faults;
}

// Prints, for a malloc of 300 bytes and the first write to its block, the processor time that one
// call in ten thousand exceeds, and the longest. The blocks accumulate until the end.
void report_long_calls(const char* what) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  };
  constexpr size_t kCalls = 500'000;
  Mapped<void*> blocks(kCalls);
  std::vector<uint32_t> times(kCalls);
  for (size_t i = 0; i < kCalls; i++) {
    const uint64_t begin = now();
    blocks[i] = StandardNames::malloc(300);
    touch(blocks[i], 300);
    times[i] = static_cast<uint32_t>(now() - begin);
  }
  std::sort(times.begin(), times.end());
  std::printf("%s: p99.99 %u ns, longest %u ns\n", what, times[kCalls - kCalls / 10'000],
              times.back());
  for (size_t i = 0; i < kCalls; i++) StandardNames::free(blocks[i]);
}

TEST(Populated, MallocCausesNoPageFaultsUntilThePopulatedMemoryIsGivenUp) {
  if (!can_populate()) GTEST_SKIP() << "an option of nearmalloc";
  ASSERT_EQ(near_set_option("populate_mib", kReserve / kMiB), 0);
  EXPECT_GE(resident_bytes(), kReserve);
  size_t faults = faults_of_taking();
  std::printf("%zu faults the first time\n", faults);
  EXPECT_LE(faults, kMostFaults);
  report_long_calls("with populated memory");

  StandardNames::malloc_trim(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than the decay
  StandardNames::malloc_trim(0);
  EXPECT_GE(resident_bytes(), kReserve);
  faults = faults_of_taking();
  std::printf("%zu faults the second time\n", faults);
  EXPECT_LE(faults, kMostFaults);

  ASSERT_EQ(near_set_option("populate_mib", 0), 0);
  StandardNames::malloc_trim(0);
  EXPECT_LE(resident_bytes(), kReserve / 4);
  report_long_calls("without");
  StandardNames::malloc_trim(0);
  faults = faults_of_taking();
  std::printf("%zu faults without\n", faults);
  EXPECT_GT(faults, kMostFaults);
  EXPECT_EQ(violations(), 0u);
}

// Run with NEARMALLOC_POPULATE_MIB=200.
TEST(Populated, TheEnvironmentPopulatesAtStart) {
  if (!can_populate()) GTEST_SKIP() << "an option of nearmalloc";
  const char* asked = std::getenv("NEARMALLOC_POPULATE_MIB");
  if (asked == nullptr) GTEST_SKIP() << "the option is not set";
  EXPECT_GE(resident_bytes(), kReserve);
  const size_t faults = faults_of_taking();
  std::printf("%zu faults\n", faults);
  EXPECT_LE(faults, kMostFaults);
}

}  // namespace
}  // namespace near_test
