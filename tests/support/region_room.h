// A region that owns all chunks of a window of its own, and grows as its node would make it.
// Invariant: it fits any page size up to 64 KiB.
// Thread-safety: the thread of the test that made it.
#pragma once

#include <atomic>

#include "base/bits.h"
#include "node/node.h"
#include "node/region.h"
#include "platform/os.h"
#include "support/pages.h"

namespace near_test {

// A place where the system maps nothing by itself, and which TSan takes for a program's memory.
inline std::atomic<uintptr_t> next_place{0x7e90'0000'0000};

class RegionRoom {
 public:
  explicit RegionRoom(uint32_t chunks, unsigned node = 0) : chunks_(chunks), budget_{chunks} {
    const size_t bytes = near::align_up(near::Window::bytes_for(chunks, 1), near::kChunkSize);
    window_.plan(reinterpret_cast<char*>(next_place.fetch_add(bytes)), chunks, 1, false);
    node_.init(node, 1);
    region_.init(window_, 0, node_.shard(0), budget_);
  }
  ~RegionRoom() {
    for (uint32_t i = 0; i < region_.chunks_end(); i++) {
      if (region_.is_mapped(i)) near::os::unmap(region_.chunk_start(i), near::kChunkSize);
    }
    region_.vanish();
  }
  RegionRoom(const RegionRoom&) = delete;
  RegionRoom& operator=(const RegionRoom&) = delete;

  near::Region& region() { return region_; }
  near::Shard& shard() { return node_.shard(0); }
  near::Window& window() { return window_; }
  char* base() const { return window_.base(); }
  near::Chunk* chunks() const { return window_.table(0); }
  size_t bytes() const { return size_t{chunks_} << near::kChunkShift; }

 private:
  uint32_t chunks_;
  near::Budget budget_;
  near::Window window_;
  near::Node node_;
  near::Region region_;
};

}  // namespace near_test
