#include "designs/shared/machine.h"

#include <sys/sysinfo.h>

#include "platform/cpu.h"
#include "platform/message.h"
#include "platform/options.h"

namespace near::design {
namespace {

constinit Topology machine_topology;
unsigned machine_processors = 1;

}  // namespace

void read_machine() {
  const int online = get_nprocs();
  machine_processors = online > 0 ? static_cast<unsigned>(online) : 1;
  const char* text = topology_text();
  if (text == nullptr) return read_topology(machine_topology);
  if (const char* wrong = parse_topology(text, machine_topology)) {
    message("NEARMALLOC_TOPOLOGY is ignored: %s", wrong);
    read_topology(machine_topology);
  }
}

const Topology& topology() { return machine_topology; }

unsigned processors() { return machine_processors; }

unsigned current_node() {
  return machine_topology.count == 1 ? 0 : machine_topology.node_of(current_cpu());
}

}  // namespace near::design
