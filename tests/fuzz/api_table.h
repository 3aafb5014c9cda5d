// The blocks that an input of fuzz_api holds, and the model that every result is compared with.
//
// A block has a slot; its bytes hold a pattern of its own. What is live is also kept by address, so
// that a block that lies in another one is seen when it is handed out.
// Invariant: sum of usable sizes of slots = live_bytes; a slot is empty, or its block is live.
// Thread-safety: the thread whose turn it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace near_test::fuzz {

// The call that made a block decides which sized frees it may have.
enum class Maker : uint8_t { sized, aligned, other };

struct Slot {
  char* start = nullptr;
  size_t size = 0;  // asked for
  size_t usable = 0;
  size_t alignment = 0;  // of Maker::aligned: asked for
  uint64_t seed = 0;
  Maker maker = Maker::other;
};

class Table {
 public:
  static constexpr size_t kSlots = 256;
  static constexpr size_t kMostBytes = size_t{24} << 20;
  static constexpr size_t kMostUsable = size_t{8} << 20;  // of a block that is asked for
  static constexpr size_t kImpossible = size_t{1} << 40;  // no world has room for so much

  // What the input asks of a block.
  struct Wish {
    size_t size;
    size_t alignment;  // 0: that of malloc
    Maker maker = Maker::other;
    bool zero = false;
  };

  Slot& at(size_t index) { return slots_[index]; }
  bool has_room(size_t size) const {
    return size >= kImpossible || (size <= kMostUsable && live_bytes_ + size <= kMostBytes);
  }
  size_t live_bytes() const { return live_bytes_; }

  // True if `address` lies in no live block.
  bool is_free(const void* address) const;
  // A block that was freed before, or null.
  char* freed(size_t index) const {
    return freed_.empty() ? nullptr : freed_[index % freed_.size()];
  }

  // Records what a call returned for `wish`; errno was 0 before the call.
  void add(size_t index, void* start, const Wish& wish);
  // Records what realloc returned for the block of a slot; errno was 0 before the call.
  void resized(size_t index, void* start, size_t size);
  // Called before the block of a slot is freed. From then on it is not live.
  void* remove(size_t index);
  void expect_patterns() const;

  // From here on memory may be refused: the input asked for it, or used up what there is.
  void allow_refusal() { may_refuse_ = true; }
  bool may_refuse() const { return may_refuse_; }

 private:
  bool is_refused(const void* start, size_t size);
  void keep(Slot& slot);
  void fill_slot(const Slot& slot);
  void expect_pattern(const Slot& slot) const;

  Slot slots_[kSlots];
  std::map<uintptr_t, size_t> live_;  // usable bytes by address
  std::vector<char*> freed_;          // the latest ones
  size_t live_bytes_ = 0;
  uint64_t made_ = 0;
  bool may_refuse_ = false;
};

}  // namespace near_test::fuzz
