// The table by which the description (FDE) of a function is found: .eh_frame_hdr, as linkers write
// it. Numbers have 4 bytes, entries are relative to the table's start, and sorted.
// Thread-safety: any thread; the object that has the table must stay loaded.
#pragma once

#include <cstdint>

namespace near::profile {

class SearchTable {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // `start` is what find_unwind_header returned, not null.
  explicit SearchTable(const void* start) : start_(static_cast<const uint8_t*>(start)) {
    const auto* header = static_cast<const Header*>(start);
    constexpr uint8_t kPcRelative4 = 0x1b;
    constexpr uint8_t kUnsigned4 = 0x03;
    constexpr uint8_t kHeaderRelative4 = 0x3b;
    const bool is_known = header->version == 1 && header->pointer_encoding == kPcRelative4 &&
                          header->count_encoding == kUnsigned4 &&
                          header->table_encoding == kHeaderRelative4;
    count_ = is_known ? header->count : 0;
    entries_ = reinterpret_cast<const Entry*>(header + 1);
  }

  // The number of the last function that starts at or before the address; kNone if there is none,
  // or if the table has another form.
  uint32_t find(uintptr_t pc) const {
    uint32_t low = 0;
    uint32_t high = count_;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (entries_[middle].start <= place_of(pc)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;  // kNone if low is 0
  }

  // True if `find` returns this number.
  bool finds(uint32_t number, uintptr_t pc) const {
    return number < count_ && entries_[number].start <= place_of(pc) &&
           (number + 1 == count_ || entries_[number + 1].start > place_of(pc));
  }

  const uint8_t* description(uint32_t number) const {
    return start_ + entries_[number].description;
  }

 private:
  struct Header {
    uint8_t version;
    uint8_t pointer_encoding;
    uint8_t count_encoding;
    uint8_t table_encoding;
    int32_t frames;
    uint32_t count;
  };
  struct Entry {
    int32_t start;
    int32_t description;
  };

  intptr_t place_of(uintptr_t pc) const {
    return static_cast<intptr_t>(pc - reinterpret_cast<uintptr_t>(start_));
  }

  const uint8_t* start_;
  const Entry* entries_;
  uint32_t count_;
};

}  // namespace near::profile
