// Checks all structures that no other thread is changing: the nodes, the caller's heap, the parked
// heaps and the shared ones.
#include "front/thread.h"
#include "heap/registry.h"
#include "inspect/statistics.h"
#include "node/memory.h"
#include "platform/message.h"

namespace near {
namespace {

// Checks every span that `heap` owns, and its spare blocks. The caller holds its lock and the
// owner's rights.
size_t check_heap(const Heap& heap) {
  size_t wrong = heap.check_spares();
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].for_each_span([&](const Span& span) {
      // relaxed: our spans do not change now. Test the owner first: another heap's span may change.
      if (span.owner.load(kRelaxed) == &heap && span.kind == SpanKind::blocks) {
        wrong += heap.check_span(span);
      }
    });
  }
  return wrong;
}

}  // namespace

size_t check_everything() {
  if (is_inside()) return 0;
  start_library();
  size_t wrong = 0;
  for (unsigned n = 0; n < topology.count; n++) wrong += nodes[n].check();
  if (has_heap()) {
    const LockGuard guard(current_heap->lock);
    wrong += check_heap(*current_heap);
  }
  const auto add = [](Heap& heap, void* sum) { *static_cast<size_t*>(sum) += check_heap(heap); };
  visit_parked_heaps(add, &wrong);
  visit_shared_heaps(add, &wrong);
  return wrong;
}

}  // namespace near
