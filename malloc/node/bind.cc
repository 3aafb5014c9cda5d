#include "node/bind.h"

#include "node/memory.h"
#include "platform/options.h"
#include "platform/os.h"

namespace near {

void bind_to(unsigned node, void* start, size_t bytes) {
  const auto mode = static_cast<Binding>(option(Option::bind));
  if (!topology.real || topology.count == 1 || mode == Binding::off) return;
  if (topology.has_policy && mode != Binding::strict) return;
  if (!os::bind(start, bytes, topology.kernel_id[node], mode == Binding::strict)) {
    count_event(node_counters[node].bind_refused);
    record_event(EventKind::bind_refused, node, node, bytes);
  }
}

}  // namespace near
