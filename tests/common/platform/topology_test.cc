// The topology from text (good, odd and malformed), and that of this machine. The lab's VM tests
// what sysfs says of holes and memory-only nodes: its paths are fixed.
#include "platform/topology.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/cases.h"

namespace near_test {
namespace {

using near::Topology;

Topology parsed(const std::string& text) {
  Topology topology;
  const char* wrong = near::parse_topology(text.c_str(), topology);
  EXPECT_EQ(wrong, nullptr) << text << ": " << wrong;
  count_cases();
  return topology;
}

std::vector<unsigned> order_of(const Topology& topology, unsigned node) {
  return {topology.order[node], topology.order[node] + topology.count};
}

using Order = std::vector<unsigned>;

TEST(Topology, NodesAndCpusAreAsTheTextSays) {
  const Topology topology = parsed("nodes=4;cpus=0-1,2-3+8,4,5-7");
  EXPECT_EQ(topology.count, 4u);
  EXPECT_FALSE(topology.real);
  const unsigned expected[] = {0, 0, 1, 1, 2, 3, 3, 3, 1};
  for (unsigned cpu = 0; cpu < 9; cpu++) EXPECT_EQ(topology.node_of(cpu), expected[cpu]) << cpu;
  for (unsigned n = 0; n < 4; n++) EXPECT_EQ(topology.kernel_id[n], n);
}

TEST(Topology, CpusThatNobodyNamesBelongToTheFirstNode) {
  const Topology topology = parsed("nodes=2;cpus=0-1,10-11");
  EXPECT_EQ(topology.node_of(5), 0u);
  EXPECT_EQ(topology.node_of(11), 1u);
  EXPECT_EQ(topology.node_of(12), 0u);
  EXPECT_EQ(topology.node_of(near::kMaxCpus), 0u);
  EXPECT_EQ(topology.node_of(~0u), 0u);
}

TEST(Topology, ANodeMayHaveMemoryAndNoCpus) {
  const Topology first = parsed("nodes=3;cpus=,0-1,2");
  EXPECT_EQ(first.node_of(0), 1u);
  EXPECT_EQ(first.node_of(2), 2u);
  const Topology last = parsed("nodes=3;cpus=0-1,,");
  EXPECT_EQ(last.node_of(1), 0u);
  EXPECT_EQ(last.count, 3u);
  const Topology between = parsed("nodes=3;cpus=0,,1;distance=10,15,30,15,10,30,30,20,10");
  EXPECT_EQ(between.node_of(1), 2u);
  EXPECT_EQ(order_of(between, 2), (Order{2, 1, 0}));
}

TEST(Topology, NearerNodesComeFirst) {
  const Topology ring = parsed("nodes=4;distance=10,16,32,17,16,10,17,32,32,17,10,16,17,32,16,10");
  EXPECT_EQ(order_of(ring, 0), (Order{0, 1, 3, 2}));
  EXPECT_EQ(order_of(ring, 1), (Order{1, 0, 2, 3}));
  EXPECT_EQ(order_of(ring, 2), (Order{2, 3, 1, 0}));
  EXPECT_EQ(order_of(ring, 3), (Order{3, 2, 0, 1}));
}

TEST(Topology, DistancesAreAsTheTextSays) {
  const unsigned rows[3][3] = {{10, 17, 255}, {31, 10, 1}, {42, 21, 10}};
  const Topology topology = parsed("nodes=3;distance=10,17,255,31,10,1,42,21,10");
  for (unsigned n = 0; n < 3; n++) {
    for (unsigned other = 0; other < 3; other++) {
      EXPECT_EQ(topology.distance(n, other), rows[n][other]) << n << " " << other;
      count_cases();
    }
  }
}

TEST(Topology, ADistanceThatNothingSaysIs20) {
  const Topology none = parsed("nodes=64");
  for (unsigned n = 0; n < 64; n++) {
    for (unsigned other = 0; other < 64; other++) {
      ASSERT_EQ(none.distance(n, other), n == other ? 10u : 20u) << n << " " << other;
    }
  }
  const Topology some = parsed("nodes=3;distance=10,0,15,25,10,0,0,0,10");
  EXPECT_EQ(some.distance(0, 1), 20u);
  EXPECT_EQ(order_of(some, 0), (Order{0, 2, 1}));
  EXPECT_EQ(order_of(some, 1), (Order{1, 2, 0})) << "20 is nearer than 25";
  EXPECT_EQ(order_of(some, 2), (Order{2, 0, 1}));
}

TEST(Topology, EveryNodeComesFirstInItsOwnOrder) {
  // Even where the text claims that another one is nearer.
  const Topology odd = parsed("nodes=2;distance=40,10,10,40");
  EXPECT_EQ(order_of(odd, 0), (Order{0, 1}));
  EXPECT_EQ(order_of(odd, 1), (Order{1, 0}));
  EXPECT_EQ(odd.distance(0, 0), 10u);
  EXPECT_EQ(odd.distance(0, 1), 10u);
}

TEST(Topology, SixtyFourNodesAreSupported) {
  const Topology topology = parsed("nodes=64");
  for (unsigned n = 0; n < 64; n++) {
    Order order = order_of(topology, n);
    EXPECT_EQ(order[0], n);
    std::sort(order.begin(), order.end());
    for (unsigned i = 0; i < 64; i++) ASSERT_EQ(order[i], i);
  }
}

TEST(Topology, AMalformedTextChangesNothingAndIsNamed) {
  const char* wrong[] = {"",
                         "nodes",
                         "nodes=",
                         "nodes=0",
                         "nodes=65",
                         "nodes=-1",
                         "nodes=2;",
                         "nodes=2;;cpus=0,1",
                         "nodes=2;cpus",
                         "nodes=2;cpus=0",
                         "nodes=2;cpus=0,1,2",
                         "nodes=2;cpus=1-0,2",
                         "nodes=2;cpus=0-,1",
                         "nodes=2;cpus=0+,1",
                         "nodes=2;cpus=a,b",
                         "nodes=2;cpus=0,4096",
                         "nodes=2;cpus=0,99999999999999999999",
                         "nodes=2;distance=10,20,20",
                         "nodes=2;distance=10,20,20,10,10",
                         "nodes=2;distance=10,20,20,256",
                         "nodes=2;distance=10;20;20;10",
                         "nodes=2;colour=red",
                         "nodes=2 ",
                         "cpus=0,1;nodes=2"};
  for (const char* text : wrong) {
    Topology topology;
    topology.count = 7;
    topology.node_of_cpu[3] = 5;
    const char* what = near::parse_topology(text, topology);
    ASSERT_NE(what, nullptr) << text;
    EXPECT_GT(std::strlen(what), 10u) << text;
    EXPECT_EQ(topology.count, 7u) << text;
    EXPECT_EQ(topology.node_of_cpu[3], 5) << text;
    count_cases();
  }
}

TEST(Topology, ThisMachineHasOne) {
  Topology topology;
  near::read_topology(topology);
  EXPECT_TRUE(topology.real);
  ASSERT_GE(topology.count, 1u);
  ASSERT_LE(topology.count, near::kMaxNodes);
  for (unsigned n = 0; n < topology.count; n++) {
    EXPECT_EQ(topology.order[n][0], n);
    EXPECT_EQ(topology.distance(n, n), 10u);
    for (unsigned i = 1; i < topology.count; i++) {
      EXPECT_GT(topology.distance(n, topology.order[n][i]), 10u) << "no other node is at home";
    }
  }
  for (unsigned cpu = 0; cpu < near::kMaxCpus; cpu++) {
    ASSERT_LT(topology.node_of(cpu), topology.count);
    count_cases();
  }
}

// What get_mempolicy answers, and whether the process chose where its memory lies.
TEST(TopologyPolicy, IsOneIfItChoosesNodes) {
  const struct {
    int mode;
    bool names_nodes;
    bool chooses;
  } kCases[] = {
      {MPOL_DEFAULT, false, false},
      {MPOL_LOCAL, false, false},
      {MPOL_DEFAULT | MPOL_F_NUMA_BALANCING, false, false},
      {MPOL_PREFERRED, false, false},  // how older kernels name the local one
      {MPOL_PREFERRED, true, true},
      {MPOL_BIND, true, true},
      {MPOL_BIND | MPOL_F_STATIC_NODES, true, true},
      {MPOL_INTERLEAVE, true, true},
      {MPOL_INTERLEAVE | MPOL_F_RELATIVE_NODES, true, true},
      {5, true, true},  // MPOL_PREFERRED_MANY
      {6, true, true},  // MPOL_WEIGHTED_INTERLEAVE
  };
  for (const auto& [mode, names_nodes, chooses] : kCases) {
    EXPECT_EQ(near::chooses_nodes(mode, names_nodes), chooses) << mode;
    count_cases();
  }
}

}  // namespace
}  // namespace near_test
