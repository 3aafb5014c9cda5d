// A set of size classes: one bit for each.
// Thread-safety: the guard of the variable that holds it.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "sizes/size_class.h"

namespace near {

class ClassSet {
 public:
  NEAR_INLINE void add(unsigned size_class) {
    words_[size_class / 64] |= uint64_t{1} << size_class % 64;
  }
  bool has(unsigned size_class) const {
    return (words_[size_class / 64] >> size_class % 64 & 1) != 0;
  }

 private:
  uint64_t words_[div_up(kClasses, 64)] = {};
};

}  // namespace near
