// Blocks on their way from the thread that allocated them to the thread that frees them.
//
// Invariant: 0 <= tail_ - head_ <= capacity; blocks between head_ and tail_ belong to the consumer,
// all other places of the ring to the producer. The consumer sees blocks in whole batches, except
// where the ring is full or the producer has finished. Thread-safety: one producer calls push and
// finish, one consumer calls drain and is_over.
#pragma once

#include <atomic>
#include <bit>

#include "table.h"

namespace workload {

class Channel {
 public:
  explicit Channel(size_t batch) : batch_(batch), ring_(std::bit_ceil(batch + kFewest)) {}

  // False if the ring is full: then everything in it is visible to the consumer.
  bool push(const Block& block) {
    if (written_ - head_.load(std::memory_order_acquire) == ring_.size()) {  // pairs: channel head
      publish();
      return false;
    }
    ring_[written_++ & (ring_.size() - 1)] = block;
    if (++unpublished_ >= batch_) publish();
    return true;
  }

  // The producer has pushed its last block of a round.
  void finish() {
    publish();
    rounds_.fetch_add(1, std::memory_order_release);  // pairs: channel end
  }

  // Calls free(block) for all blocks that the consumer can see; returns how many there were.
  template <typename Free>
  size_t drain(Free free) {
    const size_t end = tail_.load(std::memory_order_acquire);  // pairs: channel tail
    const size_t count = end - taken_;
    for (; taken_ != end; ++taken_) free(ring_[taken_ & (ring_.size() - 1)]);
    if (count != 0) head_.store(taken_, std::memory_order_release);  // pairs: channel head
    return count;
  }

  // True if no block of so many rounds will come. Call drain after it, for those that came before.
  bool is_over(size_t rounds) const {
    return rounds_.load(std::memory_order_acquire) >= rounds;  // pairs: channel end
  }

  const Blocks& table() const { return ring_; }

 private:
  static constexpr size_t kFewest = 64;  // places beyond a batch

  void publish() {
    unpublished_ = 0;
    tail_.store(written_, std::memory_order_release);  // pairs: channel tail
  }

  const size_t batch_;
  Blocks ring_;
  alignas(128) size_t written_ = 0;  // the producer's
  size_t unpublished_ = 0;
  std::atomic<size_t> rounds_{0};
  std::atomic<size_t> tail_{0};
  alignas(128) size_t taken_ = 0;  // the consumer's
  std::atomic<size_t> head_{0};
};

}  // namespace workload
