// Fuzz target: the text of the option `topology`.
// Invariant: a text is refused with a reason and changes nothing, or gives a topology that is whole
// and that its own text gives again.
// Thread-safety: libFuzzer's thread.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fuzz/harness.h"
#include "platform/topology.h"

namespace near_test::fuzz {
namespace {

using near::kMaxCpus;
using near::kMaxNodes;
using near::Topology;

// Compares field by field: between fields a structure may have bytes that are never written.
bool are_equal(const Topology& a, const Topology& b) {
  for (unsigned n = 0; n < kMaxNodes; n++) {
    for (unsigned other = 0; other < kMaxNodes; other++) {
      if (a.distance(n, other) != b.distance(n, other)) return false;
    }
  }
  return a.count == b.count && a.unused == b.unused && a.real == b.real &&
         std::memcmp(a.kernel_id, b.kernel_id, sizeof a.kernel_id) == 0 &&
         std::memcmp(a.node_of_cpu, b.node_of_cpu, sizeof a.node_of_cpu) == 0 &&
         std::memcmp(a.order, b.order, sizeof a.order) == 0;
}

// A topology that no text gives, so that every change is seen.
Topology untouched() {
  Topology topology;
  std::memset(topology.kernel_id, 0x5a, sizeof topology.kernel_id);
  std::memset(topology.node_of_cpu, 0x5a, sizeof topology.node_of_cpu);
  std::memset(topology.order, 0x5a, sizeof topology.order);
  std::memset(topology.said_distance, 0x5a, sizeof topology.said_distance);
  topology.count = kMaxNodes + 1;
  topology.unused = 7;
  return topology;
}

void expect_whole(const Topology& topology) {
  demand(topology.count >= 1 && topology.count <= kMaxNodes, "%u nodes", topology.count);
  demand(!topology.real && topology.unused == 0, "a text is taken for the kernel's");
  for (unsigned n = 0; n < topology.count; n++) {
    demand(topology.kernel_id[n] == n, "node %u has the number %u", n, topology.kernel_id[n]);
    std::vector<unsigned> row(topology.order[n], topology.order[n] + topology.count);
    demand(row[0] == n, "node %u is not its own nearest", n);
    for (unsigned i = 2; i < topology.count; i++)
      demand(topology.distance(n, row[i - 1]) <= topology.distance(n, row[i]),
             "node %u has node %u before a nearer one", n, row[i - 1]);
    std::sort(row.begin(), row.end());
    for (unsigned i = 0; i < topology.count; i++)
      demand(row[i] == i, "the order of node %u has no node %u", n, i);
  }
  for (unsigned cpu = 0; cpu < kMaxCpus; cpu++)
    demand(topology.node_of(cpu) < topology.count, "CPU %u is of no node", cpu);
}

std::string cpus_of(const Topology& topology, unsigned node) {
  std::string ranges;
  for (unsigned cpu = 0; cpu < kMaxCpus; cpu++) {
    if (topology.node_of(cpu) != node) continue;
    const unsigned first = cpu;
    while (cpu + 1 < kMaxCpus && topology.node_of(cpu + 1) == node) cpu++;
    ranges += (ranges.empty() ? "" : "+") + std::to_string(first) + "-" + std::to_string(cpu);
  }
  return ranges;
}

std::string text_of(const Topology& topology) {
  std::string text = "nodes=" + std::to_string(topology.count) + ";cpus=";
  for (unsigned n = 0; n < topology.count; n++) text += (n == 0 ? "" : ",") + cpus_of(topology, n);
  text += " distance=";
  for (unsigned n = 0; n < topology.count; n++) {
    for (unsigned other = 0; other < topology.count; other++)
      text += (n + other == 0 ? "" : ",") + std::to_string(topology.distance(n, other));
  }
  return text;
}

void expect_refusal(const char* wrong, const Topology& topology) {
  const size_t length = std::strlen(wrong);
  demand(length > 10 && length < 200, "a reason of %zu characters", length);
  demand(are_equal(topology, untouched()), "a refused text changed the topology");
}

void play(const std::string& text) {
  Topology topology = untouched();
  const char* wrong = near::parse_topology(text.c_str(), topology);
  note("%s", wrong == nullptr ? "taken" : wrong);
  if (wrong != nullptr) {
    if (has_fault("partial")) topology.node_of_cpu[kMaxCpus - 1] = 0;
    return expect_refusal(wrong, topology);
  }
  if (has_fault("order") && topology.count > 2)
    std::swap(topology.order[1][0], topology.order[1][1]);
  if (has_fault("cpu") && topology.count == 2) topology.node_of_cpu[9] = 2;
  expect_whole(topology);
  Topology again = untouched();
  const std::string own = text_of(topology);
  wrong = near::parse_topology(own.c_str(), again);
  if (has_fault("again") && topology.node_of_cpu[1] == 1) again.node_of_cpu[1] = 0;
  demand(wrong == nullptr, "its own text is refused: %s: %s", wrong, own.c_str());
  demand(are_equal(topology, again), "its own text gives another topology: %s", own.c_str());
}

}  // namespace
}  // namespace near_test::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  near_test::fuzz::count_input();
  near_test::fuzz::play(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
