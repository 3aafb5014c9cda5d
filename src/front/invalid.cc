#include "front/invalid.h"

#include <cstdint>
#include <cstdlib>

#include "base/bits.h"
#include "base/compiler.h"
#include "node/memory.h"
#include "platform/message.h"
#include "platform/options.h"
#include "span/span.h"

namespace near {
namespace {

// Says of a pointer into our memory what lies there.
void describe(const void* pointer) {
  const Span* span = enclosing_span(pointer);
  if (span == nullptr) return;
  switch (span->kind) {
    case SpanKind::blocks: {
      const uint32_t size = span->shape().size;
      const auto offset =
          static_cast<size_t>(static_cast<const char*>(pointer) - span->start) % size;
      message("  it is %zu bytes into a block of %u bytes at %p", offset, size,
              static_cast<const void*>(static_cast<const char*>(pointer) - offset));
      return;
    }
    case SpanKind::large:
      message("  it is inside a block of %zu bytes at %p", span->asked,
              static_cast<void*>(span->start));
      return;
    case SpanKind::none:
    case SpanKind::inside:
      message("  it lies in memory of this allocator that holds no live block");
      return;
  }
}

}  // namespace

NEAR_COLD void report_invalid(const void* pointer, const char* what) {
  const auto reaction = static_cast<OnInvalid>(option(Option::invalid));
  if (reaction == OnInvalid::ignore) return;
  message("invalid free of %p: %s", pointer, what);
  describe(pointer);
  if (reaction == OnInvalid::abort) abort();
}

}  // namespace near
