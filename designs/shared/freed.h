// What came of a free, and how a design reports one that was wrong.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "front/invalid.h"

namespace near::design {

// Unless it is `yes`, nothing was done.
enum class Freed : uint8_t {
  yes,
  twice,     // the block is known to be free
  no_block,  // no block begins there
};

inline void report(const void* block, Freed freed) {
  if (unlikely(freed == Freed::twice)) report_invalid(block, "it was freed before");
  if (unlikely(freed == Freed::no_block)) report_invalid(block, "it is not a block");
}

}  // namespace near::design
