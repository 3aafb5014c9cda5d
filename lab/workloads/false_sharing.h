// What the two false sharing workloads do with an object: write all of it, many times.
//
// Invariant: an even number of flips leaves every byte as it was, so the object's stamp survives,
// unless another thread wrote the same bytes. Thread-safety: the object's holder.
#pragma once

#include "block.h"

namespace workload {

// Reads and writes every byte of the object `times` times; one more when that is odd.
inline void write_many_times(const Block& object, size_t times) {
  volatile char* const bytes = object.address;
  for (size_t i = 0; i < times + times % 2; ++i) {
    for (size_t at = 0; at < object.size; ++at) bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
  }
}

}  // namespace workload
