// Two queues of batches of blocks between threads: full batches go to the threads that free their
// blocks, empty ones return to the threads that allocate.
//
// Invariant: every batch is in one of the two queues or held by one thread; nothing here allocates
// after the constructor. Thread-safety: any thread.
#pragma once

#include <condition_variable>
#include <mutex>

#include "table.h"

namespace workload {

using Batch = Blocks;

class Batches {
 public:
  // Makes `count` batches, each of which has `size` places for blocks.
  Batches(size_t count, size_t size) : batches_(count, Batch(size)), empty_(count), full_(count) {
    for (Batch& batch : batches_) empty_.put(&batch);
  }

  Batch& take_empty() { return take(empty_); }
  Batch& take_full() { return take(full_); }
  void put_empty(Batch& batch) { put(empty_, batch); }
  void put_full(Batch& batch) { put(full_, batch); }

 private:
  // A ring, first in, first out. Invariant: 0 <= put_ - taken_ <= slots_.size().
  class Queue {
   public:
    explicit Queue(size_t capacity) : slots_(capacity) {}
    bool is_empty() const { return put_ == taken_; }
    void put(Batch* batch) { slots_[put_++ % slots_.size()] = batch; }
    Batch* take() { return slots_[taken_++ % slots_.size()]; }

    std::condition_variable filled;

   private:
    Table<Batch*> slots_;
    size_t put_ = 0;
    size_t taken_ = 0;
  };

  Batch& take(Queue& queue) {
    std::unique_lock lock(mutex_);
    queue.filled.wait(lock, [&] { return !queue.is_empty(); });
    return *queue.take();
  }

  void put(Queue& queue, Batch& batch) {
    {
      const std::lock_guard lock(mutex_);
      queue.put(&batch);
    }
    queue.filled.notify_one();
  }

  Table<Batch> batches_;
  std::mutex mutex_;  // guards the queues
  Queue empty_;
  Queue full_;
};

}  // namespace workload
