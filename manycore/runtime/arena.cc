#include "runtime/arena.h"

#include <algorithm>

#include "engine/engine.h"

namespace near::manycore {

void Arena::make() {
  if (free_ != nullptr) return;
  free_ = static_cast<Range*>(reserve(kMost * sizeof(Range)));
  insert(0, {kBegin, kEnd});
}

void Arena::insert(unsigned at, Range range) {
  if (count_ == kMost) fail("the process has too many mappings");
  std::copy_backward(free_ + at, free_ + count_, free_ + count_ + 1);
  free_[at] = range;
  ++count_;
}

void Arena::erase(unsigned at) {
  std::copy(free_ + at + 1, free_ + count_, free_ + at);
  --count_;
}

uintptr_t Arena::take(size_t bytes) {
  make();
  for (unsigned i = 0; i < count_; ++i) {
    if (free_[i].end - free_[i].begin < bytes) continue;
    const uintptr_t begin = free_[i].begin;
    free_[i].begin += bytes;
    if (free_[i].begin == free_[i].end) erase(i);
    return begin;
  }
  return 0;
}

void Arena::take_at(uintptr_t begin, size_t bytes) {
  make();
  const uintptr_t end = begin + bytes;
  for (unsigned i = 0; i < count_;) {
    const Range range = free_[i];
    if (range.end <= begin || range.begin >= end) {
      ++i;
      continue;
    }
    erase(i);
    if (range.end > end) insert(i, {end, range.end});
    if (range.begin < begin) insert(i++, {range.begin, begin});
  }
}

void Arena::give(uintptr_t begin, size_t bytes) {
  make();
  begin = std::max(begin, kBegin);
  const uintptr_t end = std::min(begin + bytes, kEnd);
  if (begin >= end) return;
  take_at(begin, end - begin);
  unsigned at = 0;
  while (at < count_ && free_[at].begin < begin) ++at;
  insert(at, {begin, end});
  if (at + 1 < count_ && free_[at + 1].begin == end) {
    free_[at].end = free_[at + 1].end;
    erase(at + 1);
  }
  if (at > 0 && free_[at - 1].end == begin) {
    free_[at - 1].end = free_[at].end;
    erase(at);
  }
}

}  // namespace near::manycore
