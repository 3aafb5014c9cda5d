// The blocks of the driver: a call each, its result checked, and a pattern that is checked by the
// thread that frees it, however many hands it went through.
// Invariant: NULL comes with ENOMEM, and only where the program has refusals.
// Thread-safety: a block belongs to the thread that holds it; any thread may use a mailbox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "support/pattern.h"

namespace near_test::driver {

struct Block {
  char* start = nullptr;
  size_t size = 0;
  uint64_t seed = 0;
};

// Ends the process, after a line "seed N: what", unless `condition` holds.
void demand(bool condition, const char* what, size_t number = 0);

// What the checks and faults depend on. Set before the first thread starts.
struct Rules {
  uint64_t seed = 0;
  bool refusals = false;   // memory may be refused
  std::string_view fault;  // what is broken on purpose, to show that the checks notice
};
extern Rules rules;

// An empty block if memory is refused. `pattern` is the new block's.
Block make(size_t size, uint64_t pattern);
Block make_zeroed(size_t size, uint64_t pattern);
Block make_aligned(size_t alignment, size_t size, uint64_t pattern);
Block make_on_node(size_t size, int node, unsigned flags, uint64_t pattern);

// Records what another call returned.
Block take_over(void* start, size_t size, size_t alignment, uint64_t pattern);

void check_and_resize(Block& block, size_t size, uint64_t pattern);
void check_and_free(const Block& block);
void check_and_free_batch(const std::vector<Block>& blocks);

// Slots in which threads leave blocks for each other.
class Mailbox {
 public:
  // Puts `block` into a slot and returns what was there.
  Block exchange(uint64_t slot, Block block);

  // Locks it around fork, so that the child finds every block of it at rest.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  // Called by its holder, or where no other thread is left.
  void free_all();

 private:
  std::mutex mutex_;
  Block slots_[200];
};

}  // namespace near_test::driver
