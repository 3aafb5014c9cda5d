// fork from a process whose other threads allocate all the time.
// Invariant: the child finds the blocks of its parent whole, frees them, allocates, starts threads,
// and never waits for ever.
#include <unistd.h>

#include "stress/block.h"
#include "support/forked.h"

namespace near_test {
namespace {

template <typename Api>
class Fork : public StressTest<Api> {};
TYPED_TEST_SUITE(Fork, ApisUnderTest);

template <typename Api>
void churn(uint64_t with_seed, size_t rounds, Mailbox& mailbox) {
  Random random(with_seed);
  for (size_t i = 0; i < rounds; ++i) {
    const Block block = make_block<Api>(random.size_up_to(i % 256 == 0 ? 21 : 12), random.next());
    check_and_free<Api>(mailbox.exchange(random.next(), block));
  }
}

// What the child does; its exit status says what went wrong. An alarm ends a child that waits for
// ever.
template <typename Api>
[[noreturn]] void live_in_child(std::vector<Block>& inherited) {
  alarm(30);
  wrong_blocks = 0;
  Mailbox mailbox(100);
  for (const Block& block : inherited) check_and_free<Api>(block);
  churn<Api>(1, 500, mailbox);
  run_threads(2, [&](size_t me) { churn<Api>(me, 300, mailbox); });
  mailbox.drain<Api>();
  if (wrong_blocks.load() != 0) _exit(1);
  _exit(violations() == 0 ? 0 : 2);
}

TYPED_TEST(Fork, WhileOtherThreadsAllocate) {
  const size_t forks = scaled(150);
  std::atomic<bool> stop{false};
  std::thread background([&] {
    run_threads(4, [&](size_t me) {
      Mailbox mailbox(200);
      for (uint64_t i = 0; !stop.load(); ++i) churn<TypeParam>(seed() + me + i * 10, 200, mailbox);
      mailbox.drain<TypeParam>();
    });
  });
  Random random(seed());
  for (size_t i = 0; i < forks; ++i) {
    std::vector<Block> blocks;
    for (int j = 0; j < 300; ++j)
      blocks.push_back(make_block<TypeParam>(random.size_up_to(13), random.next()));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) live_in_child<TypeParam>(blocks);
    for (const Block& block : blocks) check_and_free<TypeParam>(block);
    const int status = status_of(child);
    EXPECT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0)
        << "1: a block was damaged, 2: near_check() found a violation";
    count_cases();
  }
  stop = true;
  background.join();
}

// A child of a child: hooks run again, and what was adopted once can be adopted once more.
TYPED_TEST(Fork, ThreeGenerationsDeep) {
  const size_t lines = scaled(20);
  for (size_t line = 0; line < lines; ++line) {
    Mailbox mailbox(50);
    std::thread busy([&] { churn<TypeParam>(seed() + line, 3'000, mailbox); });
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(30);
      Mailbox own(50);
      churn<TypeParam>(line, 200, own);
      const pid_t grandchild = fork();
      std::vector<Block> blocks;
      if (grandchild == 0) live_in_child<TypeParam>(blocks);
      const int status = status_of(grandchild);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
    }
    busy.join();
    mailbox.drain<TypeParam>();
    EXPECT_EQ(status_of(child), 0);
    count_cases();
  }
}

}  // namespace
}  // namespace near_test
