#include "node/places.h"

#include "node/chunk.h"
#include "platform/os.h"
#include "platform/random.h"

namespace near {

Places first_places(size_t heap_bytes, size_t head_bytes) {
  const os::Landmark end = os::landmark();
  const size_t needed = min_of(512 * kGiB, end.address / 4) + heap_bytes + head_bytes;
  if (end.address / 2 < needed) return {0, 0};
  const size_t spread = min_of(min_of(end.spread, end.address / 4), end.address / 2 - needed);
  const size_t steps = spread / kChunkSize + 1;
  const size_t heap_offset = secret(Secret::heap_place) % steps * kChunkSize;
  const size_t head_offset = secret(Secret::head_place) % steps * kChunkSize;
  const uintptr_t lowest = align_down(end.address - needed - spread, kChunkSize);
  // They do not overlap: the one with the larger offset is moved by the length of the other one.
  if (heap_offset < head_offset) {
    return {.heap = lowest + heap_offset, .head = lowest + heap_bytes + head_offset};
  }
  return {.heap = lowest + head_bytes + heap_offset, .head = lowest + head_offset};
}

}  // namespace near
