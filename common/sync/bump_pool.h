// Memory that threads take in pieces and never give back: without a lock, until a block of it is
// used up.
//
// A block begins with its size and with the bytes that threads have asked it for. A thread takes a
// piece by adding to that number: what lies between the old sum and the new one is its own, if the
// new one is at most the size. If not, the rest of the block is lost.
// Invariant: no two pieces overlap; `used` only grows.
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "sync/mutex.h"

namespace near {

class BumpPool {
 public:
  struct Block {
    Plain<size_t> bytes;  // of all of it; constant once other threads see the block
    Atomic<size_t> used;  // from the block's start, this header included; may exceed `bytes`
    Plain<Block*> before = nullptr;  // the block that this one follows; constant as `bytes`
  };

  // Returns `bytes` of memory. If the block has too little left, one thread at a time, which holds
  // `lock`, calls make(), which returns a new block, of which `used` covers the header and a piece
  // of `bytes` for the caller, or null. Null if make() returned null.
  template <typename Make>
  char* take(size_t bytes, Mutex& lock, Make make) {
    while (true) {
      Block* block = current_.load(kAcquire);  // pairs: bump-pool
      if (block != nullptr) {
        if (char* piece = take_from(*block, bytes)) return piece;
      }
      const LockGuard guard(lock);
      if (current_.load(kRelaxed) != block) continue;  // relaxed: changed under the lock only
      Block* made = make();
      if (made == nullptr) return nullptr;
      const size_t at = made->used.load(kRelaxed) - bytes;  // relaxed: no other thread knows it
      current_.store(made, kRelease);                       // pairs: bump-pool
      return reinterpret_cast<char*>(made) + at;
    }
  }

  // The block that pieces are taken from; null before the first. make() may call it.
  Block* newest() const { return current_.load(kAcquire); }  // pairs: bump-pool

  // Calls visit(start, bytes) for every block, the newest first.
  template <typename Visit>
  void for_each_block(Visit visit) const {
    for (Block* block = newest(); block != nullptr; block = block->before) {
      visit(reinterpret_cast<const char*>(block), static_cast<size_t>(block->bytes));
    }
  }

 private:
  // Null if the block has too little left. It looks first, so that a large request, for which
  // memory is then refused, seldom costs the rest of the block.
  static char* take_from(Block& block, size_t bytes) {
    // relaxed: a hint, and below the sum only has to be unique
    if (block.used.load(kRelaxed) + bytes > block.bytes) return nullptr;
    const size_t at = block.used.fetch_add(bytes, kRelaxed);  // relaxed: as above
    return at + bytes <= block.bytes ? reinterpret_cast<char*>(&block) + at : nullptr;
  }

  Atomic<Block*> current_{nullptr};
};

}  // namespace near
