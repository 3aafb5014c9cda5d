#include "designs/scalloc/list_front.h"

#include "front/invalid.h"

namespace near::design::scalloc {

// Inner and wrong pointers are the LABs' business.
void put_in_front(void* pointer) {
  const Span& span = *span_of(pointer);
  if (!span.holds(span.offset_of(pointer))) return deallocate_block(pointer);
  // relaxed: the thread that has a block of the span saw its class
  if (!Front::put(span.size_class.load(kRelaxed), pointer)) {
    report_invalid(pointer, "it is free already");
  }
}

}  // namespace near::design::scalloc
