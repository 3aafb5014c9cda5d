// SipHash-2-4: a keyed hash of 64 bits. Who knows any number of hashes, and not the key, can
// neither compute another hash nor the key. [Aumasson12]
// Thread-safety: any thread; it has no state.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace near {

struct SipKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

class SipHash {
 public:
  constexpr explicit SipHash(const SipKey& key)
      : a_(key.low ^ 0x736f'6d65'7073'6575),
        b_(key.high ^ 0x646f'7261'6e64'6f6d),
        c_(key.low ^ 0x6c79'6765'6e65'7261),
        d_(key.high ^ 0x7465'6462'7974'6573) {}

  constexpr uint64_t of(const uint8_t* bytes, size_t length) {
    size_t at = 0;
    for (; at + 8 <= length; at += 8) add(word_at(bytes + at, 8));
    add(word_at(bytes + at, length - at) | uint64_t{length} << 56);
    c_ ^= 0xff;
    for (int i = 0; i < 4; i++) round();
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  static constexpr uint64_t word_at(const uint8_t* bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) word |= uint64_t{bytes[i]} << 8 * i;
    return word;
  }

  constexpr void add(uint64_t word) {
    d_ ^= word;
    for (int i = 0; i < 2; i++) round();
    a_ ^= word;
  }

  constexpr void round() {
    a_ += b_;
    b_ = std::rotl(b_, 13) ^ a_;
    a_ = std::rotl(a_, 32);
    c_ += d_;
    d_ = std::rotl(d_, 16) ^ c_;
    a_ += d_;
    d_ = std::rotl(d_, 21) ^ a_;
    c_ += b_;
    b_ = std::rotl(b_, 17) ^ c_;
    c_ = std::rotl(c_, 32);
  }

  uint64_t a_;
  uint64_t b_;
  uint64_t c_;
  uint64_t d_;
};

}  // namespace near
