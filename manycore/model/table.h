// A hash table of numbers that grows, for structures that must never call malloc.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace near::manycore {

// Gives zeroed memory of the host. Memory of at least a MiB can be returned by munmap.
using Reserve = void* (*)(size_t bytes);

// Entries have a `uint64_t key`; 0 means empty. An entry may move when another is added.
template <typename Entry>
class Table {
 public:
  void create(Reserve reserve) {
    reserve_ = reserve;
    resize(kFirst);
  }

  Entry* find(uint64_t key) const {
    for (size_t i = hash(key);; ++i) {
      Entry& entry = entries_[i & mask_];
      if (entry.key == key) return &entry;
      if (entry.key == 0) return nullptr;
    }
  }

  // The entry of this key; a new one is zero but for its key.
  Entry& at(uint64_t key) {
    if (Entry* const found = find(key)) return *found;
    if ((count_ + 1) * 3 > (mask_ + 1) * 2) resize((mask_ + 1) * 2);
    ++count_;
    Entry& entry = *place(key);
    entry.key = key;
    return entry;
  }

  size_t size() const { return count_; }
  // Calls visit(entry) for each; it may change all but the key.
  template <typename Visit>
  void each(Visit visit) const {
    for (size_t i = 0; i <= mask_; ++i) {
      if (entries_[i].key != 0) visit(entries_[i]);
    }
  }

 private:
  static constexpr size_t kFirst = size_t{1} << 15;

  size_t hash(uint64_t key) const { return (key * 0x9e3779b97f4a7c15) >> 20; }
  Entry* place(uint64_t key) {
    size_t i = hash(key);
    while (entries_[i & mask_].key != 0) ++i;
    return &entries_[i & mask_];
  }
  void resize(size_t size) {
    Entry* const old = entries_;
    const size_t old_size = old == nullptr ? 0 : mask_ + 1;
    entries_ = static_cast<Entry*>(reserve_(size * sizeof(Entry)));
    mask_ = size - 1;
    for (size_t i = 0; i < old_size; ++i) {
      if (old[i].key != 0) *place(old[i].key) = old[i];
    }
    if (old_size * sizeof(Entry) >= (size_t{1} << 20)) munmap(old, old_size * sizeof(Entry));
  }

  Reserve reserve_ = nullptr;
  Entry* entries_ = nullptr;
  size_t mask_ = 0;
  size_t count_ = 0;
};

}  // namespace near::manycore
