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
  size_t last = 0;  // the granule learned last, if any
  for (size_t granule = 0; granule < kGranules; ++granule) {
    const uint8_t node = learned_[granule];
    // relaxed: see node_of
    nodes_[granule].store(node, std::memory_order_relaxed);
    if (node == kUnknownNode) continue;
    const bool is_gap = learned_[last] == node;
    for (size_t between = last + 1; is_gap && between < granule; ++between) {
      nodes_[between].store(node, std::memory_order_relaxed);  // relaxed: see node_of
    }
    last = granule;
  }
}

std::vector<NodeMap::Learned> NodeMap::learned() const {
  std::vector<Learned> found;
  for (const Learned& node : samples_) {
    if (node.samples != 0) found.push_back(node);
  }
  return found;
}

}  // namespace nearcount
