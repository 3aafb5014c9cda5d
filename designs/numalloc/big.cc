#include "designs/numalloc/big.h"

#include "designs/numalloc/metadata.h"
#include "platform/os.h"

namespace near::design::numalloc {
namespace {

uint32_t bags_of(size_t size) { return static_cast<uint32_t>(div_up(size, kBagSize)); }
unsigned bin_of(uint32_t bags) { return log2_floor(bags); }

}  // namespace

void BigHeap::set(uintptr_t start, size_t size, BigObject** by_bag, Metadata* metadata) {
  half_.set(start, size);
  by_bag_ = by_bag;
  metadata_ = metadata;
}

BigObject* BigHeap::find(const void* start) const {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(start) - half_.start();
  return offset % kBagSize == 0 && offset < half_.used() ? by_bag_[offset >> kBagShift] : nullptr;
}

// --- records -------------------------------------------------------------------------------------

BigObject* BigHeap::make_record(uint32_t first, uint32_t bags) {
  BigObject* record = unused_;
  if (record != nullptr) {
    unused_ = record->next;
  } else {
    record = static_cast<BigObject*>(metadata_->take(sizeof(BigObject)));
    if (record == nullptr) return nullptr;
  }
  *record = BigObject{nullptr, nullptr, nullptr, nullptr, first, bags, false};
  by_bag_[first] = record;
  return record;
}

void BigHeap::drop_record(BigObject* record) {
  by_bag_[record->first] = nullptr;
  record->next = unused_;
  unused_ = record;
}

// --- free objects --------------------------------------------------------------------------------

void BigHeap::put_free(BigObject* object) {
  object->free = true;
  bins_[bin_of(object->bags)].push_front(object);
}

void BigHeap::take_free(BigObject* object) {
  bins_[bin_of(object->bags)].remove(object);
  object->free = false;
}

// The number of bags from `first` to the next multiple of `alignment` bags in memory.
uint32_t BigHeap::padding(uint32_t first, uint32_t alignment) const {
  const uintptr_t at = (half_.start() >> kBagShift) + first;
  return static_cast<uint32_t>(align_up(at, alignment) - at);
}

// First fit in the list of its power of two, within kLooks steps; else in the lists of larger ones.
BigObject* BigHeap::find_free(uint32_t bags, uint32_t alignment) const {
  constexpr int kLooks = 64;
  for (unsigned bin = bin_of(bags); bin < kBins; bin++) {
    int looks = 0;
    for (BigObject* object = bins_[bin].front(); object != nullptr && looks < kLooks;
         object = object->next, looks++) {
      const size_t needed = size_t{bags} + padding(object->first, alignment);
      if (object->bags >= needed) return object;
    }
  }
  return nullptr;
}

// Cuts the object to `bags`; returns the rest, which is on no list. Null if a record is refused.
BigObject* BigHeap::split(BigObject* object, uint32_t bags) {
  BigObject* rest = make_record(object->first + bags, object->bags - bags);
  if (rest == nullptr) return nullptr;
  rest->before = object;
  rest->after = object->after;
  (rest->after != nullptr ? rest->after->before : last_) = rest;
  object->after = rest;
  object->bags = bags;
  statistics_.split++;
  return rest;
}

// Joins two neighbours that are on no list.
BigObject* BigHeap::join(BigObject* object, BigObject* after) {
  object->bags += after->bags;
  object->after = after->after;
  (object->after != nullptr ? object->after->before : last_) = object;
  drop_record(after);
  statistics_.coalesced++;
  return object;
}

// Frees the object and joins it with its free neighbours.
void BigHeap::coalesce(BigObject* object) {
  if (BigObject* after = object->after; after != nullptr && after->free) {
    take_free(after);
    join(object, after);
  }
  if (BigObject* before = object->before; before != nullptr && before->free) {
    take_free(before);
    object = join(before, object);
  }
  put_free(object);
}

// --- never-used memory ---------------------------------------------------------------------------

// Makes the next `bags` of the half an object.
BigObject* BigHeap::extend(uint32_t bags) {
  constexpr size_t kStep = 64 * kKiB;  // the largest page there is
  const auto first = static_cast<uint32_t>(half_.used() >> kBagShift);
  const size_t table = align_up((size_t{first} + bags) * sizeof(BigObject*), kStep);
  if (table > by_bag_committed_) {
    char* more = reinterpret_cast<char*>(by_bag_) + by_bag_committed_;
    if (!os::commit(more, table - by_bag_committed_)) return nullptr;
    by_bag_committed_ = table;
  }
  BigObject* object = make_record(first, bags);
  if (object == nullptr) return nullptr;
  if (half_.take(size_t{bags} << kBagShift) == nullptr) {
    drop_record(object);
    return nullptr;
  }
  object->before = last_;
  if (last_ != nullptr) last_->after = object;
  last_ = object;
  return object;
}

BigObject* BigHeap::take_new(uint32_t bags, uint32_t alignment) {
  const auto first = static_cast<uint32_t>(half_.used() >> kBagShift);
  const uint32_t gap = padding(first, alignment);
  const size_t left = (half_.size() - half_.used()) >> kBagShift;
  if (size_t{gap} + bags > left) return nullptr;
  BigObject* object = extend(gap + bags);
  if (object == nullptr || gap == 0) return object;
  BigObject* aligned = split(object, gap);
  coalesce(object);
  return aligned;
}

// --- public operations ---------------------------------------------------------------------------

void* BigHeap::hand_out(BigObject* object) {
  statistics_.allocated++;
  statistics_.live++;
  statistics_.live_bytes += size_t{object->bags} << kBagShift;
  return reinterpret_cast<void*>(half_.start() + (size_t{object->first} << kBagShift));
}

void* BigHeap::allocate(size_t size, size_t alignment, bool& zeroed) {
  if (size > half_.size() || alignment > half_.size()) return nullptr;
  const uint32_t bags = bags_of(size);
  const uint32_t aligned = bags_of(alignment);
  const LockGuard guard(lock_);
  BigObject* object = find_free(bags, aligned);
  zeroed = object == nullptr;
  if (object == nullptr) {
    object = take_new(bags, aligned);
    return object != nullptr ? hand_out(object) : nullptr;
  }
  take_free(object);
  if (const uint32_t gap = padding(object->first, aligned); gap > 0) {
    BigObject* front = object;
    object = split(front, gap);
    put_free(front);
    if (object == nullptr) return nullptr;
  }
  if (object->bags > bags) {
    // If a record for the rest is refused, the object keeps the rest.
    if (BigObject* rest = split(object, bags)) put_free(rest);
  }
  return hand_out(object);
}

BigHeap::Freed BigHeap::release(void* start, bool remote) {
  const LockGuard guard(lock_);
  BigObject* object = find(start);
  if (object == nullptr) return Freed::no_object;
  if (object->free) return Freed::twice;
  statistics_.live--;
  statistics_.live_bytes -= size_t{object->bags} << kBagShift;
  statistics_.freed_remote += remote ? 1 : 0;
  coalesce(object);
  return Freed::fine;
}

bool BigHeap::resize(void* start, size_t size) {
  if (size > half_.size()) return false;
  const uint32_t bags = bags_of(size);
  const LockGuard guard(lock_);
  BigObject* object = find(start);
  if (object == nullptr || object->free) return false;
  const uint32_t had = object->bags;
  if (bags > had) {
    BigObject* after = object->after;
    if (after == nullptr) {
      const size_t left = (half_.size() - half_.used()) >> kBagShift;
      if (bags - had > left) return false;
      after = extend(bags - had);
      if (after == nullptr) return false;
    } else if (after->free && after->bags >= bags - had) {
      take_free(after);
    } else {
      return false;
    }
    join(object, after);
  }
  if (object->bags > bags) {
    if (BigObject* rest = split(object, bags)) coalesce(rest);
  }
  statistics_.live_bytes += (size_t{object->bags} << kBagShift) - (size_t{had} << kBagShift);
  return true;
}

size_t BigHeap::usable_size(const void* start) {
  const LockGuard guard(lock_);
  const BigObject* object = find(start);
  return object != nullptr && !object->free ? size_t{object->bags} << kBagShift : 0;
}

BigHeap::Statistics BigHeap::statistics() {
  const LockGuard guard(lock_);
  return statistics_;
}

bool BigHeap::check() {
  const LockGuard guard(lock_);
  size_t end = half_.used() >> kBagShift;
  size_t live = 0;
  const BigObject* after = nullptr;
  for (const BigObject* object = last_; object != nullptr; object = object->before) {
    if (object->first + object->bags != end || by_bag_[object->first] != object) return false;
    if (object->after != after || (after != nullptr && after->free && object->free)) return false;
    live += object->free ? 0 : 1;
    end = object->first;
    after = object;
  }
  return end == 0 && live == statistics_.live;
}

}  // namespace near::design::numalloc
