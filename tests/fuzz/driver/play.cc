#include "fuzz/driver/play.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "node/memory.h"
#include "support/fake_os.h"

namespace near_test::driver {
namespace {

int count_nodes() {
  near_stats stats;
  near_get_stats(&stats);
  return static_cast<int>(stats.nodes);
}

Character draw_character(uint64_t seed) {
  Random random(seed);
  Character character{};
  character.threads = static_cast<unsigned>(2 + random.below(5));
  character.lives = character.threads + static_cast<unsigned>(random.below(30));
  character.steps = 200 + random.below(2'000);
  character.favourite = 1 + random.below(random.below(2) == 0 ? 300 : 5'000);
  character.most_blocks = 10 + random.below(300);
  character.large_bits = static_cast<unsigned>(14 + random.below(7));
  character.large_percent = 1 + random.below(random.below(2) == 0 ? 3 : 30);
  character.forks = static_cast<int>(random.below(12));
  return character;
}

}  // namespace

Play::Play(uint64_t seed, bool forks, bool refusals)
    : seed_(seed),
      refusals_(refusals),
      nodes_(count_nodes()),
      character_(draw_character(seed)),
      shared_heap_(near_heap_create_interleaved()),
      forks_left_(forks ? character_.forks : 0) {
  demand(shared_heap_ != nullptr, "no heap");
  near::topology.real = nodes_ > 1;  // regions that are added later are bound to them
}

uint64_t Play::operations() const {
  return operations_.load(std::memory_order_relaxed);  // relaxed: read after the threads are joined
}

void Play::start_threads() {
  std::deque<std::thread> threads;
  for (uint64_t number = 1; number <= character_.lives; number++) {
    if (threads.size() == character_.threads) {
      threads.front().join();
      threads.pop_front();
    }
    threads.emplace_back([this, number] { Life(*this, number, 0).run(character_.steps); });
  }
  for (std::thread& thread : threads) thread.join();
}

// What the purge thread holds at the moment is given back.
void Play::expect_nothing_left() {
  constexpr int kTries = 500;
  near_stats stats;
  for (int i = 0; i < kTries; i++) {
    near_malloc_trim(0);
    near_get_stats(&stats);
    if (stats.in_spans == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  demand(stats.large_blocks == 0, "large blocks are left", stats.large_blocks);
  demand(stats.in_spans == 0, "bytes of spans are left", stats.in_spans);
  demand(near_check() == 0, "near_check finds damage at the end");
}

void Play::run() {
  start_threads();
  fake_os::fail_none();
  Life(*this, 0, 1).run(character_.steps);
  mailbox_.free_all();
  near_heap_destroy(shared_heap_);
  fake_os::fail_none();
  rules.refusals = false;
  for (const size_t size : {100, 10'000, 100'000, 3'000'000}) check_and_free(make(size, size));
  expect_nothing_left();
}

}  // namespace near_test::driver
