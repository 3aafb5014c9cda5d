#include "node_map.h"

#include <algorithm>

namespace nearcount {

NodeMap::NodeMap()
    : learned_(kGranules, kUnknownNode),
      nodes_(std::make_unique<std::atomic<uint8_t>[]>(kGranules)) {
  close();
}

void NodeMap::learn(uint64_t value, unsigned node) {
  if (value >= kEnd || node >= kNodes) {
    ++conflicts_;
    return;
  }
  uint8_t& known = learned_[value >> kGranuleBits];
  if (known != kUnknownNode && known != node) {
    ++conflicts_;
    return;
  }
  known = static_cast<uint8_t>(node);
  Learned& samples = samples_[node];
  const bool is_first = samples.samples++ == 0;
  samples.node = node;
  samples.first = is_first ? value : std::min(samples.first, value);
  samples.last = is_first ? value : std::max(samples.last, value);
}

void NodeMap::close() {
  size_t before = kGranules;  // the granule learned last; kGranules: none yet
  for (size_t after = 0; after <= kGranules; ++after) {
    if (after < kGranules && learned_[after] == kUnknownNode) continue;
    for (size_t granule = before < kGranules ? before + 1 : 0; granule < after; ++granule) {
      const unsigned node = between(granule, before, after);
      nodes_[granule].store(static_cast<uint8_t>(node),
                            std::memory_order_relaxed);  // relaxed: as below
    }
    if (after == kGranules) return;
    nodes_[after].store(learned_[after], std::memory_order_relaxed);  // relaxed: see node_of
    before = after;
  }
}

unsigned NodeMap::between(size_t granule, size_t before, size_t after) const {
  const unsigned low = before < kGranules ? learned_[before] : kUnknownNode;
  const unsigned high = after < kGranules ? learned_[after] : kUnknownNode;
  if (low == high) return low;
  const size_t to_low = low == kUnknownNode ? kGranules : granule - before;
  const size_t to_high = high == kUnknownNode ? kGranules : after - granule;
  if (std::min(to_low, to_high) > kReach || to_low == to_high) return kUnknownNode;
  return to_low < to_high ? low : high;
}

std::vector<NodeMap::Learned> NodeMap::learned() const {
  std::vector<Learned> found;
  for (const Learned& node : samples_) {
    if (node.samples != 0) found.push_back(node);
  }
  return found;
}

}  // namespace nearcount
