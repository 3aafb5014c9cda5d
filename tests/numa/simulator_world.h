// The worlds that simulations play in: a topology from text, the CPUs that threads run on, how
// little address space each node has, and a clock.
// Thread-safety: the simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "node/region.h"

namespace near_test {

struct World {
  const char* name;
  const char* topology;  // as NEARMALLOC_TOPOLOGY
  unsigned nodes;
  unsigned cpus;        // 0 and up
  unsigned region_mib;  // of each node
};

std::span<const World> worlds();
const World* find_world(std::string_view name);

// The allocator's clock moves by this call alone.
void pass_time(uint32_t milliseconds);

// Numbers regions in the order in which they were first seen: a name that is not an address.
class RegionNumbers {
 public:
  uint64_t of(const near::Region* region);

 private:
  static constexpr size_t kMost = 256;
  const near::Region* regions_[kMost] = {};
  size_t count_ = 0;
};

}  // namespace near_test
