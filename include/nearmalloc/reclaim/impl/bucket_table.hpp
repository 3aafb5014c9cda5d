// A table that doubles while it is in use. Each segment is as large as all before it together, so
// no entry ever moves.
//
// Invariant: size() = first << k, and segments 0 to k exist; a segment is written before the size
// that includes it is published, and freed by the destructor alone.
// A thread that grew the table when the process forked does not exist in the child: its claim
// carries an older fork count, and is ignored.
// Thread-safety: any thread. One at a time grows the table; no other thread waits for that.
// Paper: [Shalev06 §3].
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"

namespace near::reclaim::impl {

struct TestAccess;  // core.hpp

inline uint64_t reverse_bits(uint64_t bits) noexcept {
  bits = __builtin_bswap64(bits);
  bits = (bits & 0x0F0F0F0F0F0F0F0Fu) << 4 | (bits >> 4 & 0x0F0F0F0F0F0F0F0Fu);
  bits = (bits & 0x3333333333333333u) << 2 | (bits >> 2 & 0x3333333333333333u);
  return (bits & 0x5555555555555555u) << 1 | (bits >> 1 & 0x5555555555555555u);
}

template <class Entry>
class bucket_table {
 public:
  explicit bucket_table(size_t first)
      : first_log2_(static_cast<unsigned>(std::countr_zero(std::bit_ceil(first)))),
        size_(size_t{1} << first_log2_) {
    segments_.fill(nullptr);
    segments_[0] = new Entry[size_t{1} << first_log2_]();
  }
  bucket_table(const bucket_table&) = delete;
  bucket_table& operator=(const bucket_table&) = delete;
  ~bucket_table() {
    for (const Entry* segment : segments_) delete[] segment;
  }

  size_t size() const noexcept {
    return size_.load(kAcquire);  // pairs: table-size
  }

  // Requires that `bucket` is below a size() that this thread has seen.
  Entry& operator[](size_t bucket) const noexcept {
    const size_t segment = segment_of(bucket);
    const size_t start = segment == 0 ? 0 : size_t{1} << (first_log2_ + segment - 1);
    return segments_[segment][bucket - start];
  }

  // Effect: doubles the table if its size is still `seen`, no other thread is growing it and there
  // is memory. Else nothing: the next thread that finds it too small will try again.
  void grow(size_t seen) noexcept {
    const size_t segment = segment_of(seen);
    uint32_t claim = growing_.load(kRelaxed);  // relaxed: the exchange checks it
    const uint32_t mine = fork_count() + 1;
    if (segment == kSegments || claim == mine ||
        !growing_.compare_exchange_strong(claim, mine, kAcquire, kRelaxed)) {  // pairs: grow
      return;
    }
    if (size() == seen) {
      delete[] segments_[segment];  // left incomplete by a fork
      segments_[segment] = new (std::nothrow) Entry[seen]();
      if (segments_[segment] != nullptr) {
        size_.store(2 * seen, kRelease);  // pairs: table-size
      }
    }
    growing_.store(0, kRelease);  // pairs: grow
  }

 private:
  friend struct TestAccess;

  static constexpr size_t kSegments = 48;

  // Segment 0 is [0, first), segment k > 0 is [first << (k - 1), first << k).
  size_t segment_of(size_t bucket) const noexcept {
    return static_cast<size_t>(std::bit_width(bucket >> first_log2_));
  }

  const unsigned first_log2_;
  std::array<Plain<Entry*>, kSegments> segments_;
  Atomic<size_t> size_;
  Atomic<uint32_t> growing_{0};  // fork_count() + 1 of the thread that grows it; 0: none does
};

}  // namespace near::reclaim::impl
