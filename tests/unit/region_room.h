// A region in its own reservation, laid out as node/memory.cc does it: descriptors, chunks, memory.
// Invariant: it fits any page size up to 64 KiB.
// Who may touch it: the test that made it.
#pragma once

#include "base/bits.h"
#include "node/region.h"
#include "unit/pages.h"

namespace near_test {

class RegionRoom {
 public:
  explicit RegionRoom(uint32_t chunks, unsigned node = 0)
      : tables_(table_bytes(chunks), size_t{64} << 10, false),
        memory_(size_t{chunks} << near::kChunkShift, near::kChunkSize, false) {
    near::os::make_readable(tables_.start(), tables_.bytes());
    region_.init(memory_.start(), reinterpret_cast<near::Span*>(tables_.start()), this->chunks(),
                 chunks, node);
  }

  near::Region& region() { return region_; }
  char* base() const { return memory_.start(); }
  near::Chunk* chunks() const {
    return reinterpret_cast<near::Chunk*>(tables_.start() + tables_.bytes() - kChunkTable);
  }

 private:
  static constexpr size_t kChunkTable = size_t{64} << 10;

  static size_t table_bytes(uint32_t chunks) {
    const size_t spans = size_t{chunks} * near::kChunkSlices * sizeof(near::Span);
    return near::align_up(spans, kChunkTable) + kChunkTable;
  }

  Memory tables_;
  Memory memory_;
  near::Region region_;
};

}  // namespace near_test
