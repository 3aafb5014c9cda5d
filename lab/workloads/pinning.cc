#include "pinning.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace workload::pinning {
namespace {

using Cpus = std::vector<int>;

Cpus order;  // the CPU of each thread; empty while threads run where they like

// The numbers of a list as the kernel writes it: 0-3,8; none where there is no such file.
Cpus numbers_in(const std::string& path) {
  Cpus numbers;
  std::ifstream file(path);
  for (std::string part; std::getline(file, part, ',');) {
    std::istringstream range(part);
    int first = 0, last = 0;
    char dash = 0;
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

// By node, the CPUs that this process may use.
std::vector<Cpus> cpus_of_nodes() {
  const std::string folder = "/sys/devices/system/node/";
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<Cpus> nodes;
  for (const int node : numbers_in(folder + "online")) {
    Cpus cpus = numbers_in(folder + "node" + std::to_string(node) + "/cpulist");
    std::erase_if(cpus, [&](int cpu) { return !CPU_ISSET(cpu, &allowed); });
    if (!cpus.empty()) nodes.push_back(cpus);
  }
  if (!nodes.empty()) return nodes;
  Cpus all;  // a kernel that knows no nodes
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  }
  return {all};
}

Cpus compact(const std::vector<Cpus>& nodes) {
  Cpus cpus;
  for (const Cpus& node : nodes) cpus.insert(cpus.end(), node.begin(), node.end());
  return cpus;
}

Cpus spread(const std::vector<Cpus>& nodes) {
  Cpus cpus;
  size_t most = 0;
  for (const Cpus& node : nodes) most = std::max(most, node.size());
  for (size_t i = 0; i < most; ++i) {
    for (const Cpus& node : nodes) {
      if (i < node.size()) cpus.push_back(node[i]);
    }
  }
  return cpus;
}

}  // namespace

void use(const std::string& policy) {
  if (policy == "spread") order = spread(cpus_of_nodes());
  if (policy == "compact") order = compact(cpus_of_nodes());
}

void pin(size_t index) {
  if (order.empty()) return;
  const int cpu = order[index % order.size()];
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (sched_setaffinity(0, sizeof only, &only) == 0) return;
  std::fprintf(stderr, "--pin: a thread cannot run on CPU %d\n", cpu);
  std::exit(1);
}

}  // namespace workload::pinning
