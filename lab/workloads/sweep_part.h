// One thread's part of sweep: the blocks that it holds, and how it replaces them.
//
// Invariant: after fill and after each turn the blocks held have at least `live` bytes together,
// and would have less without the last one allocated. Which blocks are released, and the sizes of
// the new ones, follow from the options alone. Thread-safety: the part's own thread; the channel
// to the next thread and the one from the thread before have their own rules (sweep_channel.h).
#pragma once

#include <string>

#include "sweep_channel.h"
#include "sweep_sizes.h"
#include "workload.h"

namespace workload {

enum class Order { kLifo, kFifo, kRandom, kPhases };  // which blocks a turn releases

struct SweepShape {
  const SizeMix& mix;
  size_t live;  // bytes that a part holds
  Order order;
  double remote;    // share of the releases that another thread does
  size_t batch;     // blocks that a turn releases, and that a channel publishes at a time
  double grow;      // factor by which blocks grow to their size; 0: they do not grow
  size_t smallest;  // size at which a block begins to grow
  size_t bands;     // bands of sizes through which the replacements move
};

class SweepPart {
 public:
  SweepPart(Worker& worker, const SweepShape& shape, size_t index, Channel* out, Channel* in);

  // Allocates blocks of the first band until the part has its bytes.
  void fill();
  // Replaces at least `count` blocks, in whole turns, by blocks of the first band. It returns when
  // the thread before has done so too, and frees what that one sent.
  void warm_up(size_t count);
  // The same, through all bands of sizes.
  void replace(size_t count);
  // Frees so many of a hundred blocks, at random, through `worker`.
  void free_share(size_t percent, Worker& worker);

  size_t live() const { return live_; }
  size_t held() const { return blocks_.size(); }
  const Blocks& table() const { return blocks_; }

 private:
  size_t turn(size_t band);
  void release_victims(size_t count);
  size_t victim();
  void let_go(const Block& block);
  void allocate_until(size_t live, size_t most, size_t band);
  size_t put(const Block& block);
  void grow_all();
  void close_holes();
  size_t drain();
  void finish();

  struct Growing {
    size_t place, goal;
  };

  Worker& worker_;
  const SweepShape& shape_;
  Channel* const out_;
  Channel* const in_;
  Random random_;
  Blocks blocks_;           // from the oldest to the newest if the order is LIFO
  Table<size_t> holes_;     // places of blocks that this turn released, if the order is FIFO
  Table<Growing> growing_;  // blocks of this turn that have not reached their size
  size_t filled_ = 0;       // holes that have a new block
  size_t cursor_ = 0;       // place of the oldest block if the order is FIFO
  size_t live_ = 0;
  size_t rounds_ = 0;  // of replacements: how often the thread before must have finished
};

}  // namespace workload
