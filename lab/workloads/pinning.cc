#include "pinning.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace workload::pinning {
namespace {

using Cpus = std::vector<int>;

Cpus order;                      // the CPU of each thread; empty while threads are not bound
size_t operations_in_place = 0;  // of a thread, between two moves; 0: threads do not move

// The state of a thread that moves.
struct Traveller {
  cpu_set_t allowed;
  size_t place;    // its index in `order`
  size_t since;    // operations it had done when it arrived there
  bool has_begun;  // `since` is known
};
thread_local Traveller self;
std::atomic<size_t> move_count{0};

// The numbers of a list in the kernel's format, as 0-3,8; none if the file does not exist.
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

// For each node, the CPUs that this process may use.
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
  Cpus all;  // the kernel reports no nodes
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

void run_on(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  if (sched_setaffinity(0, sizeof only, &only) == 0) return;
  std::fprintf(stderr, "--pin: a thread cannot run on CPU %d\n", cpu);
  std::exit(1);
}

// Moves to the first CPU from `place` on that this thread may use, if there is one.
void travel_to(size_t place) {
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t found = (place + i) % order.size();
    if (!CPU_ISSET(order[found], &self.allowed)) continue;
    self.place = found;
    run_on(order[found]);
    return;
  }
}

}  // namespace

void use(const std::string& policy) {
  if (policy == "spread") order = spread(cpus_of_nodes());
  if (policy == "compact") order = compact(cpus_of_nodes());
}

void migrate(size_t operations) {
  operations_in_place = operations;
  if (operations != 0) order = spread(cpus_of_nodes());
}

void pin(size_t index) {
  if (order.empty()) return;
  if (operations_in_place == 0) return run_on(order[index % order.size()]);
  self = {};
  if (sched_getaffinity(0, sizeof self.allowed, &self.allowed) == 0) travel_to(index);
}

void move_on() {
  if (operations_in_place == 0) return;
  const size_t before = self.place;
  travel_to(before + 1);
  // relaxed: a count, read when the threads have ended
  if (self.place != before) move_count.fetch_add(1, std::memory_order_relaxed);
}

void may_move(size_t operations) {
  if (operations_in_place == 0) return;
  if (!self.has_begun) self.since = operations;
  self.has_begun = true;
  if (operations - self.since < operations_in_place) return;
  self.since = operations;
  move_on();
}

// relaxed: see move_on
size_t moves() { return move_count.load(std::memory_order_relaxed); }

}  // namespace workload::pinning
