// Batches of blocks on their way between threads: a bag that many threads share, and a link from
// one thread to another.
//
// Invariant: every batch is in the bag, on the link or held by one thread; nothing here allocates
// after the constructors.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "table.h"

namespace workload {

using Batch = Blocks;

// As in malloc-test of SuperMalloc's tests and of mimalloc-bench: one mutex, two conditions, last
// in first out. A thread that brings a full batch takes an empty one with it, and the reverse, so
// the mutex is taken twice for a batch, as there. Invariant: full_ + empty_ <= the number of
// batches. Thread-safety: any thread.
class Bag {
 public:
  // Makes `count` batches, each of which has `size` places for blocks.
  Bag(size_t count, size_t size) : batches_(count, Batch(size)), full_(count), empty_(count) {
    for (Batch& batch : batches_) empty_.put(&batch);
  }

  // Puts a full batch (null: none) and takes an empty one; `last`: takes none.
  Batch* fill(Batch* full, bool last = false) { return exchange(full_, full, empty_, last); }
  // Puts an empty batch (null: none) and takes a full one; `last`: takes none.
  Batch* drain(Batch* empty, bool last = false) { return exchange(empty_, empty, full_, last); }

 private:
  struct Stack {
    explicit Stack(size_t capacity) : slots(capacity) {}
    void put(Batch* batch) { slots[count++] = batch; }

    Table<Batch*> slots;
    size_t count = 0;
    std::condition_variable filled;
  };

  Batch* exchange(Stack& to, Batch* brought, Stack& from, bool last) {
    std::unique_lock lock(mutex_);
    if (brought != nullptr) {
      to.put(brought);
      to.filled.notify_one();
    }
    if (last) return nullptr;
    from.filled.wait(lock, [&] { return from.count != 0; });
    return from.slots[--from.count];
  }

  Table<Batch> batches_;
  std::mutex mutex_;  // guards the stacks
  Stack full_;
  Stack empty_;
};

// A ring without a lock; a thread waits only when the other one is a whole ring ahead or behind.
// The waiting thread yields rather than sleeps: std::atomic counts all sleepers in one word.
// Invariant: 0 <= filled_ - freed_ <= the number of batches. Thread-safety: one thread calls
// to_fill and filled, another one to_free and freed.
class Link {
 public:
  // Makes `count` batches, each of which has `size` places for blocks.
  Link(size_t count, size_t size) : batches_(count, Batch(size)) {}

  Batch& to_fill() {
    const uint32_t mine = filled_.load(std::memory_order_relaxed);  // relaxed: this thread adds
    wait_while(freed_, mine - static_cast<uint32_t>(batches_.size()));
    return batches_[mine % batches_.size()];
  }
  void filled() { add_one(filled_); }

  Batch& to_free() {
    const uint32_t mine = freed_.load(std::memory_order_relaxed);  // relaxed: this thread adds
    wait_while(filled_, mine);
    return batches_[mine % batches_.size()];
  }
  void freed() { add_one(freed_); }

 private:
  static void wait_while(const std::atomic<uint32_t>& count, uint32_t value) {
    // pairs: count of a link
    for (int spins = 0; count.load(std::memory_order_acquire) == value;) {
      if (spins < 100) {
        ++spins;
      } else {
        std::this_thread::yield();
      }
    }
  }
  static void add_one(std::atomic<uint32_t>& count) {
    count.fetch_add(1, std::memory_order_release);  // pairs: count of a link
  }

  Table<Batch> batches_;
  alignas(128) std::atomic<uint32_t> filled_{0};
  alignas(128) std::atomic<uint32_t> freed_{0};
};

}  // namespace workload
