// Memory that threads take in pieces and never give back: without a lock, until a block of it is
// used up.
//
// A block begins with its size and with the bytes that threads have asked it for. A thread takes a
// piece by adding to that number: what lies between the old sum and the new one is its own.
// Invariant: each byte of a block below min(used, bytes) has one owner; `used` only grows.
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
  };

  // Returns `bytes` of memory. If the block has too little left, one thread at a time, which holds
  // `lock`, calls make(), which returns a new block with room for them, or null; the rest of the
  // old block is lost. Null if make() returned null.
  template <typename Make>
  char* take(size_t bytes, Mutex& lock, Make make) {
    while (true) {
      Block* block = current_.load(kAcquire);  // pairs: bump-pool
      if (block != nullptr) {
        const size_t at = block->used.fetch_add(bytes, kRelaxed);  // relaxed: it only is unique
        if (at + bytes <= block->bytes) return reinterpret_cast<char*>(block) + at;
      }
      if (!renew(block, lock, make)) return nullptr;
    }
  }

 private:
  // Makes another block the current one, unless a thread has replaced `before` already.
  template <typename Make>
  bool renew(const Block* before, Mutex& lock, Make make) {
    const LockGuard guard(lock);
    if (current_.load(kRelaxed) != before) return true;  // relaxed: changed under the lock only
    Block* made = make();
    if (made == nullptr) return false;
    current_.store(made, kRelease);  // pairs: bump-pool
    return true;
  }

  Atomic<Block*> current_{nullptr};
};

}  // namespace near
