// options::memory: the notes of retired objects come from the program's allocator, and go back.
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "born_objects.h"
#include "every_scheme.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace near::reclaim;

// Knows each block that is out; refuses some if it is told to.
class Notes {
 public:
  limbo_memory functions() { return {allocate, deallocate, this}; }
  size_t out() const {
    const std::lock_guard locked(lock_);
    return blocks_.size();
  }
  size_t asked() const { return asked_; }
  void refuse_each(size_t nth) { refused_each_ = nth; }

 private:
  static void* allocate(size_t bytes, void* context) noexcept {
    auto& self = *static_cast<Notes*>(context);
    const size_t number = ++self.asked_;
    if (self.refused_each_ != 0 && number % self.refused_each_ == 0) return nullptr;
    void* const block = std::malloc(bytes);
    const std::lock_guard locked(self.lock_);
    self.blocks_[block] = bytes;
    return block;
  }
  static void deallocate(void* block, size_t bytes, void* context) noexcept {
    auto& self = *static_cast<Notes*>(context);
    {
      const std::lock_guard locked(self.lock_);
      const auto place = self.blocks_.find(block);
      EXPECT_TRUE(place != self.blocks_.end()) << "a block that is not out";
      if (place == self.blocks_.end()) return;
      EXPECT_EQ(place->second, bytes);
      self.blocks_.erase(place);
    }
    std::free(block);
  }

  mutable std::mutex lock_;
  std::map<void*, size_t> blocks_;
  std::atomic<size_t> asked_{0};
  std::atomic<size_t> refused_each_{0};
};

template <class Scheme>
class LimboMemory : public testing::Test {
 protected:
  LimboMemory() { live_objects = 0; }
};
TYPED_TEST_SUITE(LimboMemory, EveryScheme);

// Threads come and go, and take over what others left.
template <class Scheme>
void retire_much(domain<Scheme>& domain) {
  std::atomic<Born*> source{new Born};
  for (int round = 0; round < 3; round++) {
    run_threads(3, [&](size_t) {
      for (size_t i = 0; i < 2'000; i++) {
        auto guard = domain.pin();
        guard.protect(0, source);
        guard.retire(source.exchange(new Born));
      }
    });
  }
  delete source.load();
}

TYPED_TEST(LimboMemory, IsTheProgramsAndComesBack) {
  Notes notes;
  {
    options settings;
    settings.memory = notes.functions();
    settings.batch_size = 256;
    domain<TypeParam> domain(settings);
    retire_much(domain);
    EXPECT_GT(notes.asked(), 0u);
    EXPECT_EQ(domain.collect().lost, 0u);
    domain.barrier();
    EXPECT_EQ(live_objects, 0);
  }
  EXPECT_EQ(notes.out(), 0u);
  count_cases();
}

TYPED_TEST(LimboMemory, MayBeRefused) {
  Notes notes;
  {
    options settings;
    settings.memory = notes.functions();
    settings.batch_size = 256;
    domain<TypeParam> domain(settings);
    notes.refuse_each(3);
    retire_much(domain);
    notes.refuse_each(0);
    domain.barrier();
    const statistics sums = domain.collect();
    EXPECT_EQ(sums.retired, sums.freed + sums.lost);
    EXPECT_EQ(live_objects, static_cast<long>(sums.lost));  // leaked, and counted
  }
  EXPECT_EQ(notes.out(), 0u);
  count_cases();
}

}  // namespace
}  // namespace near_test
