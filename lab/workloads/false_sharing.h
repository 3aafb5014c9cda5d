// The work of the two false sharing workloads: write every byte of an object many times.
//
// Invariant: an even number of flips restores every byte, so the object's stamp is intact unless
// another thread wrote the same bytes. Thread-safety: only the thread that holds the object.
#pragma once

#include "block.h"

namespace workload {

// Reads and writes every byte of the object `times` times, and once more if `times` is odd.
inline void write_many_times(const Block& object, size_t times) {
  volatile char* const bytes = object.address;
  for (size_t i = 0; i < times + times % 2; ++i) {
    for (size_t at = 0; at < object.size; ++at) bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
  }
}

}  // namespace workload
