#include "numa/simulator_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "platform/clock.h"

namespace near_test {
namespace {

// One node; a pair; four at uneven distances; two rings of four; and a node without CPUs, which
// gets only spills.
constexpr World kWorlds[] = {
    {"1", "nodes=1;cpus=0-3", 1, 4, 6},
    {"2", "nodes=2;cpus=0-1,2-3;distance=10,21,21,10", 2, 4, 4},
    {"4",
     "nodes=4;cpus=0-1,2-3,4-5,6-7;distance="
     "10,16,32,33,16,10,25,32,32,25,10,16,33,32,16,10",
     4, 8, 4},
    {"8",
     "nodes=8;cpus=0,1,2,3,4,5,6,7;distance="
     "10,20,22,20,32,40,42,40,20,10,20,22,40,32,40,42,22,20,10,20,42,40,32,40,20,22,20,10,40,42,"
     "40,32,32,40,42,40,10,20,22,20,40,32,40,42,20,10,20,22,42,40,32,40,22,20,10,20,40,42,40,32,"
     "20,22,20,10",
     8, 8, 4},
    {"memory-only", "nodes=3;cpus=0-1,,2-3;distance=10,15,30,15,10,14,30,14,10", 3, 4, 4},
};

constinit uint64_t now_ms = 1'000'000;

}  // namespace

std::span<const World> worlds() { return kWorlds; }

const World* find_world(std::string_view name) {
  const World* found = std::find_if(std::begin(kWorlds), std::end(kWorlds),
                                    [name](const World& world) { return name == world.name; });
  return found == std::end(kWorlds) ? nullptr : found;
}

void pass_time(uint32_t milliseconds) { now_ms += milliseconds; }

uint64_t RegionNumbers::of(const near::Region* region) {
  const auto end = regions_ + count_;
  const auto at = std::find(regions_, end, region);
  if (at != end) return static_cast<uint64_t>(at - regions_);
  if (count_ == kMost) {
    std::fprintf(stderr, "the simulator has numbers for %zu regions\n", kMost);
    std::abort();
  }
  regions_[count_] = region;
  return count_++;
}

}  // namespace near_test

namespace near {
// Replaces platform/clock.cc: the linker takes the first definition.
uint64_t coarse_now_ms() { return near_test::now_ms; }
}  // namespace near
