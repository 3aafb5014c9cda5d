// Random sizes up to 64 MiB and chains of realloc, in several threads that pass their blocks on.
// Invariant: every block holds its pattern when it is resized or freed; at most about 512 MiB live
// at once.
#include "stress/block.h"

namespace near_test {
namespace {

template <typename Api>
class Sizes : public StressTest<Api> {};
TYPED_TEST_SUITE(Sizes, ApisUnderTest);

TYPED_TEST(Sizes, RandomUpTo64MiB) {
  constexpr size_t kThreads = 4;
  constexpr size_t kMostLive = 128 * kMiB;
  const size_t rounds = scaled(30'000);
  run_threads(kThreads, [&](size_t me) {
    Random random(seed() + me);
    std::vector<Block> live;
    size_t live_bytes = 0;
    const auto free_one = [&] {
      const size_t victim = random.below(live.size());
      live_bytes -= live[victim].size;
      check_and_free<TypeParam>(std::exchange(live[victim], live.back()));
      live.pop_back();
    };
    for (size_t i = 0; i < rounds; ++i) {
      const size_t size = random.size_up_to(i % 32 == 0 ? 26 : 17);
      while (!live.empty() && (live_bytes + size > kMostLive || live.size() > 1'000)) free_one();
      live.push_back(make_block<TypeParam>(size, random.next()));
      live_bytes += live.back().size;
      count_cases();
    }
    while (!live.empty()) free_one();
  });
}

TYPED_TEST(Sizes, ReallocChains) {
  const size_t chains = scaled(400);
  Mailbox mailbox(16);
  run_threads(4, [&](size_t me) {
    Random random(seed() + me);
    for (size_t chain = 0; chain < chains; ++chain) {
      Block block = make_block<TypeParam>(random.size_up_to(8), random.next());
      const unsigned bits = chain % 16 == 0 ? 25 : 18;
      for (int link = 0; link < 40 && block.start != nullptr; ++link) {
        const bool grow = link % 10 != 9;
        const size_t next = grow ? block.size + block.size / 2 + 1 : random.size_up_to(bits);
        check_and_resize<TypeParam>(block, std::min(next, size_t{1} << bits));
        if (link % 8 == 7) block = mailbox.exchange(random.next(), block);
        count_cases();
      }
      check_and_free<TypeParam>(block);
    }
  });
  mailbox.drain<TypeParam>();
}

}  // namespace
}  // namespace near_test
