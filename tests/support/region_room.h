// A region that owns all chunks of a window of its own, and grows as its node would make it.
// Invariant: it fits any page size up to 64 KiB.
// Thread-safety: the thread of the test that made it.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/bits.h"
#include "node/node.h"
#include "node/region.h"
#include "platform/os.h"
#include "support/pages.h"

namespace near_test {

// Addresses where the system maps nothing by itself, and which TSan takes for a program's memory.
// The process's own heap lies behind them: see landmark() in fake_os.cc.
inline constexpr uintptr_t kPlacesEnd = 0x7ed0'0000'0000;
inline std::atomic<uintptr_t> next_place{0x7e90'0000'0000};

// Addresses for a test's window. No other test gets them.
inline char* place_for(size_t bytes) {
  const uintptr_t place = next_place.fetch_add(bytes);
  if (place + bytes > kPlacesEnd) {
    std::fputs("region_room: the tests plan more windows than there is room for\n", stderr);
    std::abort();
  }
  return reinterpret_cast<char*>(place);
}

class RegionRoom {
 public:
  explicit RegionRoom(uint32_t chunks, unsigned node = 0) : chunks_(chunks), budget_{chunks} {
    const size_t bytes = near::align_up(near::Window::bytes_for(chunks, 1), near::kChunkSize);
    window_.plan(place_for(bytes), chunks, 1, false);
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
