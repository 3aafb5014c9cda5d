// The main program of every GoogleTest executable here: counts cases and proves which allocator is
// under test.
// Invariant: exit status 0 only if tests ran, each counted a case, and nearmalloc served where
// NEAR_TEST_EXPECT says `near`, or the published design that it names.
// Thread-safety: only the main thread uses it, except the counters, which any thread may use.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/cases.h"
#include "support/near_extras.h"

namespace near_test {
namespace {

std::atomic<size_t> total_cases{0};

class CaseListener : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { before_ = cases_counted(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Skipped() || test.result()->Failed()) return;
    if (cases_counted() == before_) ADD_FAILURE() << test.name() << " counted no case";
  }
  size_t before_ = 0;
};

const char* environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

}  // namespace

void count_cases(size_t number) {
  total_cases.fetch_add(number, std::memory_order_relaxed);  // relaxed: a counter read after joins
}

size_t cases_counted() {
  return total_cases.load(std::memory_order_relaxed);  // relaxed: a counter read after joins
}

size_t scaled(size_t full) {
  static const double scale = std::strtod(environment("NEAR_TEST_SCALE", "1"), nullptr);
  const auto number = static_cast<size_t>(static_cast<double>(full) * scale);
  return number == 0 ? 1 : number;
}

unsigned long long seed() {
  static const unsigned long long value = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    const auto drawn = std::strtoull(environment("NEAR_TEST_SEED", "0"), nullptr, 10);
    const auto chosen = drawn != 0 ? drawn : static_cast<unsigned long long>(now);
    std::printf("seed: %llu\n", chosen);
    return chosen;
  }();
  return value;
}

bool on_nearmalloc() { return &near_version != nullptr; }

const char* design_under_test() { return &near_design_name != nullptr ? near_design_name() : ""; }

bool on_check_build() {
  return on_nearmalloc() && std::strcmp(environment("NEAR_TEST_BUILD", ""), "check") == 0;
}

size_t violations() { return &near_check != nullptr ? near_check() : 0; }

}  // namespace near_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool near = near_test::on_nearmalloc();
  const char* served = near ? "near" : near_test::design_under_test();
  std::printf("allocator: %s\n", near ? near_version() : served);
  const char* expected = near_test::environment("NEAR_TEST_EXPECT", served);
  if (std::strcmp(expected, served) != 0) {
    std::fprintf(stderr, "%s was expected, but its names are not in this process\n", expected);
    return 1;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new near_test::CaseListener);
  const int failed = RUN_ALL_TESTS();
  std::printf("cases: %zu\n", near_test::cases_counted());
  return failed != 0 || near_test::cases_counted() == 0 ? 1 : 0;
}
