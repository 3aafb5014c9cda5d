// A program drawn from a seed: threads that come and go, hand blocks to each other, and fork, while
// the system refuses memory.
//
// The seed decides what each thread does, not when: a seed that fails may have to be played more
// than once.
// Invariant: when the program has ended all threads have, all blocks are free, and all memory can
// be given back.
// Thread-safety: the main thread; a Life: its own thread.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "fuzz/driver/blocks.h"
#include "support/pattern.h"

namespace near_test::driver {

// What differs from seed to seed.
struct Character {
  unsigned threads;     // at once
  unsigned lives;       // in all
  size_t steps;         // of a life, at most
  size_t favourite;     // size of most blocks
  size_t most_blocks;   // of a life
  unsigned large_bits;  // of the largest blocks
  uint64_t large_percent;
  int forks;  // in all
};

class Play {
 public:
  Play(uint64_t seed, bool forks, bool refusals);

  void run();

  // Blocks that were made, freed and resized, so far.
  uint64_t operations() const;

 private:
  friend class Life;

  void start_threads();
  void expect_nothing_left();

  const uint64_t seed_;
  const bool refusals_;
  const int nodes_;
  Character character_;
  Mailbox mailbox_;
  near_heap* shared_heap_;  // used by all threads
  std::atomic<int> forks_left_;
  std::atomic<unsigned> refusing_{0};
  std::atomic<uint64_t> operations_{0};
};

// What one thread does from its start to its end.
class Life {
 public:
  Life(Play& play, uint64_t number, unsigned depth);

  void run(size_t steps);

 private:
  struct Action {
    unsigned weight;
    void (Life::*play)();
  };
  static const Action kActions[];

  size_t draw_size();
  Block& draw_block() { return blocks_[random_.below(blocks_.size())]; }
  void keep(const Block& block);
  Block take_out();

  void allocate();
  void allocate_zeroed();
  void allocate_aligned();
  void allocate_on_node();
  void allocate_from_heap();
  void resize();
  void free_one();
  void free_batch();
  void exchange();
  void hand_out_many();
  void leave_to_destructor();
  void trim();
  void check();
  void move_to_cpu();
  void refuse();
  void start_thread();
  void fork_process();
  [[noreturn]] void live_in_child();
  [[noreturn]] void end_child();

  Play& play_;
  const uint64_t number_;
  const unsigned depth_;  // of threads started by threads, and of forks
  Random random_;
  std::vector<Block> blocks_;
  std::vector<std::thread> children_;
  uint64_t operations_ = 0;
};

}  // namespace near_test::driver
