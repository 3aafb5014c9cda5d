#include "platform/random.h"

#include <sys/auxv.h>

#include <cstring>

namespace near {
namespace {

// A permutation in which each bit of the argument affects every bit of the result. [splitmix64]
uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace

uint64_t process_random() {
  uint64_t words[2] = {};
  const auto* bytes = reinterpret_cast<const char*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) memcpy(words, bytes, sizeof words);
  // A sum of two words: 2^64 pairs of words give the same result, so it reveals neither word.
  return mix(words[0]) + mix(mix(words[1]) + 0x9e3779b97f4a7c15);
}

}  // namespace near
