// One thread, every function of the family at random, against a map of what should live.
// Invariant: no block overlaps a live one; each holds its pattern, and is as aligned, as large and
// as zero as was asked.
#include <map>

#include "stress/block.h"

namespace near_test {
namespace {

template <typename Api>
class Shadow : public StressTest<Api> {
 protected:
  struct Live {
    size_t size;
    uint64_t seed;
  };

  void add(void* start, size_t size, size_t alignment) {
    ASSERT_NE(start, nullptr) << size;
    const uintptr_t begin = address(start);
    const size_t usable = Api::malloc_usable_size(start);
    ASSERT_EQ(begin % alignment, 0u) << size << " aligned to " << alignment;
    ASSERT_GE(usable, size);
    const auto next = live_.lower_bound(begin);
    if (next != live_.end()) {
      ASSERT_LE(begin + usable, next->first) << size;
    }
    if (next != live_.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.size, begin) << size;
    }
    const uint64_t seed = random_.next();
    fill(start, usable, seed);
    live_.emplace(begin, Live{usable, seed});
    live_bytes_ += usable;
  }

  // Takes a live block out of the map and checks its pattern; null if no block lives.
  std::pair<void*, Live> take() {
    if (live_.empty()) return {nullptr, Live{0, 0}};
    auto victim = live_.lower_bound(live_.begin()->first + random_.below(spread()));
    if (victim == live_.end()) victim = live_.begin();
    const auto taken = *victim;
    live_.erase(victim);
    live_bytes_ -= taken.second.size;
    void* start = reinterpret_cast<void*>(taken.first);
    EXPECT_TRUE(holds(start, taken.second.size, taken.second.seed)) << taken.second.size;
    return {start, taken.second};
  }

  void allocate() {
    const size_t size =
        random_.below(64) == 0 ? 0 : random_.size_up_to(random_.below(100) == 0 ? 24 : 14);
    const size_t alignment = size_t{1} << random_.below(13);
    void* out = nullptr;
    switch (random_.below(7)) {
      case 0:
        out = Api::calloc(1, size);
        ASSERT_TRUE(is_zero(out, size)) << size;
        return add(out, size, 8);
      case 1:
        return add(Api::aligned_alloc(alignment, size), size, alignment);
      case 2:
        return add(Api::memalign(alignment, size), size, alignment);
      case 3:
        ASSERT_EQ(Api::posix_memalign(&out, std::max(alignment, sizeof(void*)), size), 0);
        return add(out, size, alignment);
      case 4:
        return add(Api::valloc(size), size, 4096);
      default:
        return add(Api::malloc(size), size, size >= 16 ? 16 : 8);
    }
  }

  void resize() {
    const auto [start, old] = take();
    if (start == nullptr) return;
    const size_t size = random_.size_up_to(15);
    const size_t prefix = std::min({old.size, size, kWholeUpTo});
    fill_range(static_cast<char*>(start), 0, prefix, 99);
    void* moved =
        random_.below(2) == 0 ? Api::realloc(start, size) : Api::reallocarray(start, size, 1);
    ASSERT_NE(moved, nullptr);
    ASSERT_TRUE(range_holds(static_cast<char*>(moved), 0, prefix, 99))
        << old.size << " to " << size;
    add(moved, size, 8);
  }

  void step() {
    const uint64_t what = random_.below(10);
    if (what < 2) return resize();
    if (what < 6 && live_bytes_ < 200 * kMiB) return allocate();
    Api::free(take().first);
  }

  uintptr_t spread() const { return live_.rbegin()->first - live_.begin()->first + 1; }

  std::map<uintptr_t, Live> live_;
  size_t live_bytes_ = 0;
  Random random_{seed()};
};
TYPED_TEST_SUITE(Shadow, ApisUnderTest);

TYPED_TEST(Shadow, RandomOperationsAgreeWithAMap) {
  const size_t steps = scaled(400'000);
  for (size_t i = 0; i < steps; ++i) {
    this->step();
    if (this->HasFailure()) FAIL() << "step " << i << ", seed " << seed();
    if (i % 50'000 == 49'999) {
      ASSERT_EQ(violations(), 0u) << "step " << i << ", seed " << seed();
    }
    count_cases();
  }
  while (!this->live_.empty()) TypeParam::free(this->take().first);
}

}  // namespace
}  // namespace near_test
