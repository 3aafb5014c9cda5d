// Live blocks held against the kernel: what the audits in a guest share.
//
// Run under any allocator. For every page of every block that is added:
//   pages = agree + wrong + not_present   (agree: the kernel's node is near_node_of of the block)
// It also counts the blocks that the allocator, and the pages that the kernel, puts away from home;
// "far" counts those that are not on a node nearest to it. For an allocator without near_node_of,
// pages are compared with the homes alone.
// Invariant: a block holds its mark from end to end until it is freed; a damaged one ends the
// program with status 3. Tables are in memory of their own.
// Thread-safety: one thread at a time, while no other thread frees.
#pragma once

#include <sys/mman.h>

#include <compare>
#include <cstddef>
#include <cstdint>

#include "nearmalloc/nearmalloc.h"

namespace numa_guest {

constexpr int kNone = -1;  // no node

// A thread's live block; `home` is the node where it was allocated.
struct Block {
  unsigned char* address;
  size_t size;
  int home;
  unsigned char mark;
};

[[noreturn]] void fail(int status, const char* message);

// Zeroed memory that does not come from the allocator.
template <typename T>
T* table(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail(1, "no memory for the tables");
  return static_cast<T*>(memory);
}

// A block that was just allocated, marked.
Block marked(void* address, size_t size, int home, unsigned char mark);
void check_mark(const Block& block);

// The next number of a sequence.
uint64_t next_random(uint64_t& state);

// Frees about every other of these blocks, in no order. Returns how many are left, at the front.
size_t free_half(Block* blocks, size_t count, uint64_t& random);

// The allocator's statistics, all 0 if it has none.
near_stats allocator_stats();

// The node that the allocator reports; kNone if it reports none.
bool allocator_believes();
int believed_node(const void* block);
// The node on which the kernel has the page of this address; less than 0: none.
int kernel_node(const void* address);

struct Counts {
  size_t audits = 0;
  size_t blocks = 0;
  size_t blocks_away = 0;
  size_t blocks_far = 0;
  size_t pages = 0;
  size_t agree = 0;
  size_t wrong = 0;
  size_t not_present = 0;
  size_t pages_away = 0;
  size_t pages_far = 0;
};

class Audit {
 public:
  Audit();
  void add(const Block& block);
  // Asks the kernel about all that was added since the last call.
  void finish();
  const Counts& counts() const { return counts_; }
  // The entries of a JSON object, without its braces.
  void print() const;

 private:
  // A page that blocks share is there once for each reported node and home.
  struct Page {
    uintptr_t address;
    int believed;
    int home;

    friend auto operator<=>(const Page&, const Page&) = default;
  };

  bool is_far(int node, int home) const;
  void ask_kernel();

  Page* pages_;
  int* nodes_;
  size_t count_ = 0;
  Counts counts_;
};

}  // namespace numa_guest
