// One message of protocol buffers, as far as pprof's format needs it: numbers, lists of numbers,
// text, and messages inside. A field's key is number << 3 | type; type 0 is a varint, 2 has a
// length. [https://protobuf.dev/programming-guides/encoding]
// Invariant: what does not fit is omitted as a whole field.
// Thread-safety: the thread that made the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace near::profile {

class Message {
 public:
  void number(unsigned field, uint64_t value) {
    if (value == 0 || !has_room(2 * kMostVarint)) return;
    varint(field << 3);
    varint(value);
  }

  // The key and the length of a text that is written behind the message, because it may be longer
  // than a message.
  void begin(unsigned field, size_t length) {
    if (!has_room(2 * kMostVarint)) return;
    varint(field << 3 | 2);
    varint(length);
  }

  void message(unsigned field, const Message& inside) {
    if (!has_room(2 * kMostVarint + inside.size_)) return;
    begin(field, inside.size_);
    memcpy(data_ + size_, inside.data_, inside.size_);
    size_ += inside.size_;
  }

  // An element of a packed list; the list is a message of its own.
  void element(uint64_t value) {
    if (has_room(kMostVarint)) varint(value);
  }

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kMostVarint = 10;

  bool has_room(size_t length) const { return length <= sizeof data_ - size_; }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_[size_++] = static_cast<uint8_t>(value | 0x80);
    data_[size_++] = static_cast<uint8_t>(value);
  }

  size_t size_ = 0;
  uint8_t data_[1400];
};

}  // namespace near::profile
