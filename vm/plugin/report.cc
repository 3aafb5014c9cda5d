// The counter's JSON: vm/plugin/README.md says what each key means; vm/py/nearvm/counts.py
// reads it.
#include <nlohmann/json.hpp>

#include "counter.h"

namespace nearcount {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kEventNames[kEvents] = {"loads", "stores", "misses", "bounces", "upgrades"};
constexpr const char* kKindNames[kKinds] = {"heap", "excluded"};

std::string name_of(unsigned node) {
  return node == kUnknownNode ? "unknown" : std::to_string(node);
}

// By node, only nodes with a count above 0.
Json to_json(const Totals::value_type& nodes) {
  Json result = Json::object();
  for (unsigned node = 0; node <= kNodes; ++node) {
    if (nodes[node] == Totals::value_type::value_type{}) continue;
    Json& events = result[name_of(node)];
    for (unsigned event = 0; event < kEvents; ++event) {
      events[kEventNames[event]] = nodes[node][event];
    }
  }
  return result;
}

Json to_json(const CpuCounts& counts) {
  Json result = {{"pages_4k", counts.small_pages}, {"pages_2m", counts.huge_pages}};
  for (unsigned kind = 0; kind < kKinds; ++kind) {
    result[kKindNames[kind]] = to_json(counts.totals[kind]);
  }
  return result;
}

Json to_json(const Region& region) {
  Json result = {{"complete", region.complete},
                 {"excluded_pages", region.excluded_pages},
                 {"pages_4k", region.small_pages},
                 {"pages_2m", region.huge_pages},
                 {"remote_pages", region.remote_pages}};
  Json& cpus = result["cpus"] = Json::object();
  for (size_t cpu = 0; cpu < region.cpus.size(); ++cpu) {
    cpus[std::to_string(cpu)] = to_json(region.cpus[cpu]);
  }
  return result;
}

Json to_json(const NodeMap& nodes) {
  Json result = Json::object();
  for (const NodeMap::Learned& node : nodes.learned()) {
    result[name_of(node.node)] = {
        {"samples", node.samples}, {"first", node.first}, {"last", node.last}};
  }
  return result;
}

}  // namespace

std::string Counter::report(bool exited) {
  const std::lock_guard hold(lock_);
  if (exited && counting_.load(std::memory_order_acquire)) close(false);  // pairs: region
  Json cpus = Json::object();
  for (size_t cpu = 0; cpu < cpus_.size(); ++cpu) cpus[std::to_string(cpu)] = cpus_[cpu]->node;
  const CacheSize& cache = arguments_.cache;
  const Json calibration = {
      {"nodes", to_json(nodes_)}, {"conflicts", nodes_.conflicts()}, {"wrong_cpus", wrong_cpus_}};
  Json result = {{"format", kFormat},
                 {"exited", exited},
                 {"cache", {{"kib", cache.kib}, {"ways", cache.ways}, {"line", cache.line}}},
                 {"cpus", cpus},
                 {"calibration", calibration},
                 {"malformed", malformed_}};
  Json& regions = result["regions"] = Json::array();
  for (const Region& region : regions_) regions.push_back(to_json(region));
  return result.dump() + "\n";
}

}  // namespace nearcount
