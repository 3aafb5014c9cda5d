#include "front/invalid.h"

#include <cstdint>
#include <cstdlib>

#include "base/bits.h"
#include "base/compiler.h"
#include "front/damage.h"
#include "front/thread.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/message.h"
#include "platform/options.h"
#include "span/span.h"

namespace near {
namespace {

// Describes which thread has the heap. A hint: that may change meanwhile.
const char* whose(uint32_t heap) {
  if (has_heap() && current_heap->id() == heap) return "this thread's";
  switch (state_of_heap(heap)) {
    case HeapState::shared:
      return "shared by threads";
    case HeapState::parked:
      return "without a thread";
    case HeapState::taken:
      return "another thread's";
    case HeapState::unknown:
      break;
  }
  return "of whom is not known";
}

void describe_block(const void* pointer, const Span& span) {
  const uint32_t size = span.shape().size;
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - span.start) % size;
  const void* start = static_cast<const char*>(pointer) - offset;
  const auto seen = span.remote.look();
  message("  it is %zu bytes into a block of %u bytes at %p; its span is of heap %u, %s", offset,
          size, start, seen.owner(), whose(seen.owner()));
}

void describe_sampled(const void* pointer, const Span& span) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(pointer) - span.start);
  const uint32_t size = span.shape().size;
  message("  it is %zu bytes into a cell of %u bytes for a block that the profiler follows",
          offset % size, size);
}

void describe_large(const void* pointer, const Span& span) {
  if (span.sampled == Sampled::blocks) return describe_sampled(pointer, span);
  const auto* address = static_cast<const char*>(pointer);
  const bool before = address < span.start;
  message("  it is %zu bytes %s a large block of %zu bytes at %p, which no heap owns",
          static_cast<size_t>(before ? span.start - address : address - span.start),
          before ? "before" : "into", span.asked, static_cast<void*>(span.start));
}

// Prints what lies at a pointer, if it points into our memory.
void describe(const void* pointer) {
  const Span* span = enclosing_span(pointer);
  if (span == nullptr) return;
  switch (span->kind) {
    case SpanKind::blocks:
      describe_block(pointer, *span);
      return;
    case SpanKind::large:
      describe_large(pointer, *span);
      return;
    case SpanKind::none:
    case SpanKind::inside:
      message("  it lies in memory of this allocator that holds no live block");
      return;
  }
}

// `format` takes the pointer and `what`.
__attribute__((format(printf, 1, 0))) void react(const char* format, const void* pointer,
                                                 const char* what) {
  const auto reaction = static_cast<OnInvalid>(option(Option::invalid));
  record_event(EventKind::error, 0, 0, 0);
  if (reaction == OnInvalid::ignore) return;
  message(format, pointer, what);
  describe(pointer);
  if (reaction == OnInvalid::abort) abort();
}

}  // namespace

NEAR_COLD void report_invalid(const void* pointer, const char* what) {
  react("invalid free of %p: %s", pointer, what);
}

NEAR_COLD void report_list(const void* block, const char* what) {
  react("invalid free list at %p: %s", block, what);
}

NEAR_COLD void report_damage() {
  const Damage damage = take_damage();
  if (!damage.present()) return;  // another thread reported it first
  react(damage.flaw == Flaw::ring
            ? "invalid free list at %p: %s; a block was freed twice"
            : "invalid free list at %p: %s; a block was written to after it was freed, or past its "
              "end, or freed twice",
        damage.block, describe(damage.flaw));
}

}  // namespace near
