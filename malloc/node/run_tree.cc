#include "node/run_tree.h"

#include "base/bits.h"

namespace near {
namespace {

// The Run of two neighbours of `size` slices each.
Run join(const Run& left, const Run& right, uint32_t size) {
  return {left.head == size ? size + right.head : left.head,
          right.tail == size ? size + left.tail : right.tail,
          static_cast<uint32_t>(
              max_of(max_of(left.longest, right.longest), size_t{left.tail} + right.head))};
}

}  // namespace

Run RunTree::run_of(unsigned level, uint32_t index) const {
  if (level > 0) return entry(level, index).above;
  const uint32_t free = chunks_[index].free;
  const auto head = static_cast<uint32_t>(std::countr_one(free));
  const auto tail = static_cast<uint32_t>(std::countl_one(free));
  return {head, tail, static_cast<uint32_t>(max_of(head, tail))};
}

Run RunTree::sum_of_halves(unsigned level, uint32_t index) const {
  return join(run_of(level - 1, 2 * index), run_of(level - 1, 2 * index + 1),
              kChunkSlices << (level - 1));
}

void RunTree::grow_to(uint32_t end) {
  settle();
  end_ = end;
  while ((uint64_t{1} << height_) < end) {
    height_++;
    entry(height_, 0).above = sum_of_halves(height_, 0);
  }
}

void RunTree::settle() const {
  while (changes_ > 0) settle_above(changed_[--changes_]);
}

// It ends at a node that does not change: a walk from another changed chunk then updates the nodes
// above, if that chunk changes them.
void RunTree::settle_above(uint32_t chunk) const {
  for (unsigned level = 1; level <= height_; level++) {
    const uint32_t index = chunk >> level;
    const Run sum = sum_of_halves(level, index);
    Run& above = entry(level, index).above;
    if (above == sum) return;
    above = sum;
  }
}

uint64_t RunTree::find(uint32_t slices) const {
  settle();
  if (end_ == 0 || run_of(height_, 0).longest < slices) return kNowhere;
  uint32_t index = 0;
  for (unsigned level = height_; level > 0; level--) {
    const uint32_t right = 2 * index + 1;
    const Run left = run_of(level - 1, 2 * index);
    if (left.longest < slices && left.tail + run_of(level - 1, right).head >= slices) {
      return (uint64_t{right} << (level - 1)) * kChunkSlices - left.tail;
    }
    index = left.longest >= slices ? 2 * index : right;
  }
  const Run run = run_of(0, index);
  return uint64_t{index} * kChunkSlices + (run.head >= slices ? 0 : kChunkSlices - run.tail);
}

bool RunTree::check() const {
  if (end_ == 0) return true;
  const auto is_due = [this](unsigned level, uint32_t index) {
    for (unsigned i = 0; i < changes_; i++) {
      if (changed_[i] >> level == index) return true;
    }
    return false;
  };
  for (unsigned level = 1; level <= height_; level++) {
    for (uint32_t index = 0; index < uint32_t{1} << (height_ - level); index++) {
      if (is_due(level, index)) continue;
      if (!(run_of(level, index) == sum_of_halves(level, index))) return false;
    }
  }
  return true;
}

}  // namespace near
