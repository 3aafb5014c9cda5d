#include "sweep_part.h"

#include <algorithm>
#include <cstdint>

namespace workload {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr size_t kGrain = 16;  // bytes by which a block grows at least

// Writes a byte of each page of the block from byte `from` on, except over the stamps: memory that
// a program asked for is memory that it uses.
void touch_pages(const Block& block, size_t from) {
  const auto start = reinterpret_cast<uintptr_t>(block.address);
  const uintptr_t first = start + std::max(from, kStampedEnd);
  const uintptr_t end = start + block.size;
  for (uintptr_t at = (first + kPage - 1) & ~(kPage - 1); at + kStampedEnd < end; at += kPage) {
    *reinterpret_cast<volatile char*>(at) = 1;
  }
}

size_t grown(size_t size, double factor, size_t goal) {
  const auto next = static_cast<size_t>(static_cast<double>(size) * factor);
  return std::min(goal, std::max(next, size + kGrain));
}

}  // namespace

SweepPart::SweepPart(Worker& worker, const SweepShape& shape, size_t index, Channel* out,
                     Channel* in)
    : worker_(worker), shape_(shape), out_(out), in_(in), random_(index + 1) {
  const size_t expected = static_cast<size_t>(static_cast<double>(shape.live) / shape.mix.mean(0));
  blocks_.reserve(shape.live / shape.mix.smallest() + shape.batch + 2);
  blocks_.resize(expected + expected / 8 + 1);  // makes these places resident
  blocks_.clear();
  if (shape.order == Order::kFifo) holes_.reserve(shape.batch);
  growing_.reserve(shape.grow > 0 ? blocks_.capacity() : 1);
}

void SweepPart::fill() {
  while (live_ < shape_.live) {
    allocate_until(shape_.live, shape_.batch, 0);
    grow_all();
  }
}

void SweepPart::warm_up(size_t count) {
  for (size_t done = 0; done < count;) done += turn(0);
  finish();
}

void SweepPart::replace(size_t count) {
  // The bands come in the order 1, 2, ..., 0, because the fill was band 0.
  for (size_t done = 0; done < count;) {
    done += turn((done * shape_.bands / count + 1) % shape_.bands);
  }
  finish();
}

size_t SweepPart::turn(size_t band) {
  const size_t victims = shape_.order == Order::kPhases ? held() : std::min(shape_.batch, held());
  release_victims(victims);
  allocate_until(shape_.live, SIZE_MAX, band);
  grow_all();
  close_holes();
  drain();
  return victims;
}

void SweepPart::release_victims(size_t count) {
  if (shape_.order == Order::kPhases) {
    for (const Block& block : blocks_) let_go(block);
    blocks_.clear();
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t place = victim();
    const Block block = blocks_[place];
    if (shape_.order == Order::kFifo) {
      holes_.push_back(place);
    } else {
      blocks_[place] = blocks_.back();
      blocks_.pop_back();
    }
    let_go(block);
  }
}

size_t SweepPart::victim() {
  switch (shape_.order) {
    case Order::kFifo:
      cursor_ = cursor_ < held() ? cursor_ : 0;
      return cursor_++;
    case Order::kRandom:
      return random_.below(held());
    default:
      return held() - 1;
  }
}

void SweepPart::let_go(const Block& block) {
  live_ -= block.size;
  constexpr size_t kParts = 1 << 20;
  const auto remote = static_cast<size_t>(shape_.remote * kParts);
  if (remote == 0 || random_.below(kParts) >= remote) {
    worker_.release(block);
    return;
  }
  while (!out_->push(block)) {
    if (drain() == 0) std::this_thread::yield();
  }
}

void SweepPart::allocate_until(size_t live, size_t most, size_t band) {
  for (size_t i = 0; i < most && live_ < live; ++i) {
    const size_t goal = shape_.mix.pick(random_, band);
    const bool grows = shape_.grow > 0 && goal > shape_.smallest;
    const Block block = worker_.allocate(grows ? shape_.smallest : goal);
    touch_pages(block, 0);
    live_ += goal;
    const size_t place = put(block);
    if (grows) growing_.push_back({place, goal});
  }
}

size_t SweepPart::put(const Block& block) {
  if (filled_ < holes_.size()) {
    blocks_[holes_[filled_]] = block;
    return holes_[filled_++];
  }
  blocks_.push_back(block);
  return held() - 1;
}

// All blocks of a turn grow side by side, so that not each of them can grow in place.
void SweepPart::grow_all() {
  while (!growing_.empty()) {
    size_t left = 0;
    for (const Growing& one : growing_) {
      Block& block = blocks_[one.place];
      const size_t before = block.size;
      block = worker_.resize(block, grown(before, shape_.grow, one.goal));
      touch_pages(block, before);
      if (block.size < one.goal) growing_[left++] = one;
    }
    growing_.resize(left);
  }
}

// The last blocks take the places that no new block took.
void SweepPart::close_holes() {
  std::sort(holes_.begin() + static_cast<std::ptrdiff_t>(filled_), holes_.end());
  for (; holes_.size() > filled_; holes_.pop_back()) {
    blocks_[holes_.back()] = blocks_.back();
    blocks_.pop_back();
  }
  holes_.clear();
  filled_ = 0;
}

size_t SweepPart::drain() {
  if (in_ == nullptr) return 0;
  return in_->drain([this](const Block& block) { worker_.release(block); });
}

void SweepPart::finish() {
  ++rounds_;
  if (out_ != nullptr) out_->finish();
  while (in_ != nullptr) {
    const bool over = in_->is_over(rounds_);
    if (drain() == 0) {
      if (over) return;
      std::this_thread::yield();
    }
  }
}

void SweepPart::free_share(size_t percent, Worker& worker) {
  size_t kept = 0;
  for (const Block& block : blocks_) {
    if (random_.below(100) < percent) {
      live_ -= block.size;
      worker.release(block);
    } else {
      blocks_[kept++] = block;
    }
  }
  blocks_.resize(kept);
}

}  // namespace workload
