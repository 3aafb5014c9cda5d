// Threads that come and go, and blocks that one thread allocates and another frees.
// Invariant: every block holds its pattern when any thread frees it; near_check() finds nothing
// along the way.
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>

#include "stress/block.h"

namespace near_test {
namespace {

template <typename Api>
class Threads : public StressTest<Api> {};
TYPED_TEST_SUITE(Threads, ApisUnderTest);

// A thread's whole life in the churn: it takes over blocks of threads that are gone and leaves some
// of its own.
template <typename Api>
void live_shortly(Mailbox& mailbox, uint64_t number) {
  Random random(number);
  Block mine[12];
  for (Block& block : mine)
    block = make_block<Api>(random.size_up_to(number % 16 == 0 ? 17 : 11), random.next());
  for (size_t i = 0; i < std::size(mine); ++i) {
    check_and_free<Api>(i % 3 == 0 ? mailbox.exchange(random.next(), mine[i]) : mine[i]);
  }
}

template <typename Api>
struct Life {
  Mailbox* mailbox;
  uint64_t number;

  static void* run(void* life) {
    live_shortly<Api>(*static_cast<Life*>(life)->mailbox, static_cast<Life*>(life)->number);
    return nullptr;
  }
};

TYPED_TEST(Threads, AHundredThousandComeAndGo) {
  constexpr size_t kBatch = 25;
  const size_t batches = scaled(100'000 / kBatch);
  Mailbox mailbox(997);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{256} << 10);
  for (size_t batch = 0; batch < batches; ++batch) {
    pthread_t threads[kBatch];
    Life<TypeParam> lives[kBatch];
    for (size_t i = 0; i < kBatch; ++i) {
      lives[i] = {&mailbox, seed() + batch * kBatch + i};
      ASSERT_EQ(pthread_create(&threads[i], &attributes, Life<TypeParam>::run, &lives[i]), 0);
    }
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    if (batch % 500 == 499) {
      ASSERT_EQ(violations(), 0u) << "after " << batch * kBatch << " threads";
    }
    count_cases(kBatch);
  }
  pthread_attr_destroy(&attributes);
  mailbox.drain<TypeParam>();
}

// One thread trims, which claims spans on behalf of owners, while the owners run: the trim may
// touch only claimed spans. Their blocks come back from elsewhere, many spans at a time, so that
// the owners' heaps shrink.
TYPED_TEST(Threads, ATrimLeavesRunningOwnersAlone) {
  constexpr size_t kOwners = 2;
  constexpr size_t kAway = 20'000;
  const size_t rounds = 3 + scaled(27);
  std::atomic<size_t> running{kOwners};
  run_threads(kOwners + 1, [&](size_t me) {
    if (me == kOwners) {
      while (running.load() > 0) TypeParam::malloc_trim(0);
      return;
    }
    Random random(seed() + me);
    std::vector<Block> near(3000);
    const auto size_at = [](size_t slot) { return 16 + slot % 20 * 40; };
    for (size_t i = 0; i < near.size(); ++i) near[i] = make_block<TypeParam>(size_at(i), i);
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<Block> away(kAway);
      for (Block& block : away) block = make_block<TypeParam>(200 + random.below(800), round);
      std::thread elsewhere([&away] {
        for (const Block& block : away) check_and_free<TypeParam>(block);
      });
      // The same size again: the owner hardly ever leaves its fast path.
      for (size_t i = 0; i < 50'000; ++i) {
        const size_t slot = random.below(near.size());
        check_and_free<TypeParam>(near[slot]);
        near[slot] = make_block<TypeParam>(size_at(slot), i);
      }
      elsewhere.join();
      count_cases();
    }
    for (const Block& block : near) check_and_free<TypeParam>(block);
    running.fetch_sub(1);
  });
  EXPECT_EQ(violations(), 0u);
}

// Blocks in flight between threads: bounded, so that producers and consumers stay close.
class Channel {
 public:
  void push(const Block& block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return blocks_.size() < kBound; });
    blocks_.push_back(block);
    changed_.notify_all();
  }

  // False once the channel is closed and empty.
  bool pop_all(std::vector<Block>& taken) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !blocks_.empty(); });
    taken.assign(blocks_.begin(), blocks_.end());
    blocks_.clear();
    changed_.notify_all();
    return !taken.empty();
  }

  void close() {
    const std::lock_guard guard(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr size_t kBound = 1024;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> blocks_;
  bool closed_ = false;
};

template <typename Api>
void consume(Channel& channel) {
  std::vector<Block> taken;
  while (channel.pop_all(taken)) {
    for (const Block& block : taken) check_and_free<Api>(block);
  }
}

TYPED_TEST(Threads, ConsumersFreeWhatProducersAllocate) {
  const size_t blocks = scaled(600'000);
  for (const unsigned bits : {7u, 11u, 16u}) {
    Channel channel;
    std::thread consumers[2];
    for (std::thread& consumer : consumers)
      consumer = std::thread(consume<TypeParam>, std::ref(channel));
    run_threads(2, [&](size_t producer) {
      Random random(seed() + producer + bits);
      for (size_t i = 0; i < blocks / 6 + 1; ++i) {
        channel.push(make_block<TypeParam>(random.size_up_to(bits), random.next()));
        count_cases();
      }
    });
    channel.close();
    for (std::thread& consumer : consumers) consumer.join();
    EXPECT_EQ(violations(), 0u);
  }
}

// Each thread allocates for its right neighbour and frees what its left one sent; some blocks go
// around twice.
TYPED_TEST(Threads, BlocksGoAroundARing) {
  const size_t blocks = scaled(40'000);
  for (size_t members = 4; members <= 8; ++members) {
    std::vector<std::unique_ptr<Channel>> channels;
    for (size_t i = 0; i < members; ++i) channels.push_back(std::make_unique<Channel>());
    run_threads(members, [&, members](size_t me) {
      Random random(seed() + me);
      Channel& right = *channels[(me + 1) % members];
      std::vector<Block> taken;
      for (size_t i = 0; i < blocks; i += 64) {
        for (size_t j = 0; j < 64; ++j)
          right.push(make_block<TypeParam>(random.size_up_to(12), random.next()));
        if (!channels[me]->pop_all(taken)) break;
        for (Block& block : taken) {
          if (random.below(8) == 0) check_and_resize<TypeParam>(block, random.size_up_to(12));
          check_and_free<TypeParam>(block);
          count_cases();
        }
      }
      right.close();
      while (channels[me]->pop_all(taken)) {
        for (const Block& block : taken) check_and_free<TypeParam>(block);
      }
    });
    EXPECT_EQ(violations(), 0u) << members;
  }
}

// Each thread frees blocks that others left, in batches of any length with blocks of all threads;
// only small sizes, so that spans fill and empty, or all sizes.
TYPED_TEST(Threads, EveryoneFreesForEveryoneInBatches) {
  for (const unsigned bits : {6u, 10u, 16u}) {
    Mailbox mailbox(bits > 10 ? 1'000 : 8'000);
    const size_t blocks = scaled(200'000) / (bits > 10 ? 10 : 1);
    run_threads(4, [&](size_t me) {
      Random random(seed() + me + bits);
      std::vector<Block> batch;
      for (size_t i = 0; i < blocks / 4 + 1; ++i) {
        const size_t size = random.size_up_to(i % 256 == 0 ? 18 : bits);
        batch.push_back(
            mailbox.exchange(random.next(), make_block<TypeParam>(size, random.next())));
        if (random.below(100) != 0 && batch.size() < 700) continue;
        check_and_free_batch<TypeParam>(batch);
        batch.clear();
        if (random.below(200) == 0 && violations() != 0) count_wrong();
        count_cases();
      }
      check_and_free_batch<TypeParam>(batch);
    });
    EXPECT_EQ(violations(), 0u) << bits;
    mailbox.drain<TypeParam>();
    EXPECT_EQ(violations(), 0u) << bits;
  }
}

// All threads swap blocks with each other: larson's pattern, the most remote frees per allocation.
TYPED_TEST(Threads, EveryoneFreesForEveryone) {
  Mailbox mailbox(2'000);
  const size_t swaps = scaled(300'000);
  for (int generation = 0; generation < 4; ++generation) {
    run_threads(6, [&](size_t me) {
      Random random(seed() + me + static_cast<size_t>(generation) * 100);
      for (size_t i = 0; i < swaps / 24 + 1; ++i) {
        const size_t size = random.size_up_to(i % 64 == 0 ? 20 : 10);
        check_and_free<TypeParam>(
            mailbox.exchange(random.next(), make_block<TypeParam>(size, random.next())));
        count_cases();
      }
    });
    EXPECT_EQ(violations(), 0u) << generation;
  }
  mailbox.drain<TypeParam>();
}

}  // namespace
}  // namespace near_test
