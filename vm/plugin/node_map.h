// The NUMA node of the memory behind each of QEMU's values, learned from known pages.
//
// For a page of RAM, a plugin sees a number that is not its physical address in the guest: an
// offset among QEMU's blocks of RAM plus that of the block's region. The map learns the nodes of
// these, a granule at a time, from pages whose node the guest knows (vm/programs/calibrate).
// Invariant: a granule belongs to the node it was learned for; between two that were learned for
// one node, to that one; else to that of the nearest one within kReach, because memory that the
// kernel itself uses cannot be shown; every other granule is kUnknownNode.
// Thread-safety: node_of any thread; the rest one thread at a time (Counter's lock).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace nearcount {

constexpr unsigned kNodes = 64;
constexpr unsigned kUnknownNode = kNodes;

class NodeMap {
 public:
  static constexpr unsigned kGranuleBits = 21;
  static constexpr size_t kGranules = size_t{1} << 16;
  static constexpr size_t kReach = 32;                         // in granules: 64 MiB
  static constexpr uint64_t kEnd = kGranules << kGranuleBits;  // exclusive bound of the values

  struct Learned {
    unsigned node;
    uint64_t samples;
    uint64_t first;  // the lowest and the highest value seen
    uint64_t last;
  };

  NodeMap();

  // Notes that the page with this value lies on the node.
  void learn(uint64_t value, unsigned node);
  // Fills the gaps between learned granules, and the two ends of the map.
  void close();

  unsigned node_of(uint64_t value) const {
    if (value >= kEnd) return kUnknownNode;
    // relaxed: a byte is complete by itself; close() is over before the first access is counted
    return nodes_[value >> kGranuleBits].load(std::memory_order_relaxed);
  }

  // In the order of the nodes.
  std::vector<Learned> learned() const;
  // Samples that contradict earlier ones, or that are outside the map: must be 0.
  uint64_t conflicts() const { return conflicts_; }

 private:
  // The node of a granule that was not learned, between two that were, or an end of the map.
  unsigned between(size_t granule, size_t before, size_t after) const;

  std::vector<uint8_t> learned_;  // by granule
  std::unique_ptr<std::atomic<uint8_t>[]> nodes_;
  std::array<Learned, kNodes> samples_{};
  uint64_t conflicts_ = 0;
};

}  // namespace nearcount
