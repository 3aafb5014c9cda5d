#include "designs/scalloc/span_pool.h"

#include "designs/scalloc/fresh_spans.h"
#include "designs/scalloc/guard.h"
#include "designs/shared/machine.h"
#include "platform/os.h"
#include "sync/tagged_stack.h"

namespace near::design::scalloc {
namespace {

constexpr size_t kArena = size_t{1} << 45;  // 32 TiB [Aigner15 §3.2]
constexpr size_t kLeastSpans = 16;
constexpr size_t kStackRoomStep = 64 * kKiB;
// Larger real spans are given back when they become free. [Aigner15 §3.3]
constexpr size_t kMadviseThreshold = 32 * kKiB;

struct alignas(64) Stack {
  TaggedStack spans;
};

constinit Arena stack_room;  // holds the stacks
Stack* stacks = nullptr;     // [kRealSpans][cores]
constinit Stack looked_at;   // free spans that trim_pool has handled and will put back
uint32_t cores = 1;
size_t page_size = 0;

TaggedStack& stack_of(uint32_t real_span_index, uint32_t core) {
  return stacks[real_span_index * cores + core].spans;
}

uint32_t core_of(const Lab& lab) { return lab.index % cores; }

Span* pop(uint32_t real_span_index, uint32_t core) {
  const uint32_t number = stack_of(real_span_index, core).pop(SpanLinks());
  return number != 0 ? &span_at(number) : nullptr;
}

uint32_t real_span_index(const Span& span) {
  // relaxed: the caller has this free span
  return kSizeClasses[span.size_class.load(kRelaxed)].real_span_index;
}

// True if any page was given back: all that may be resident except page 0, which holds the header.
bool madvise_span(Span& span) {
  const size_t touched = align_up(span.touched.load(kRelaxed), page_size);  // relaxed: as above
  if (touched <= page_size) return false;
  if (!os::purge(reinterpret_cast<char*>(&span) + page_size, touched - page_size)) return false;
  span.touched.store(static_cast<uint32_t>(page_size), kRelaxed);  // relaxed: as above
  return true;
}

}  // namespace

constinit Arena arena;

bool start_span_pool() {
  page_size = os::page_size();
  cores = settings.one_stack ? 1 : processors();
  const size_t bytes = align_up(kRealSpans * cores * sizeof(Stack), kStackRoomStep);
  if (stacks == nullptr) {
    if (stack_room.size() == 0 && !stack_room.reserve(bytes, bytes, kStackRoomStep, kStackRoomStep))
      return false;
    stacks = static_cast<Stack*>(stack_room.take(bytes));
    if (stacks == nullptr) return false;
  }
  const size_t span = settings.virtual_span;
  if (!start_fresh_spans(cores) || !arena.reserve(kArena, kLeastSpans * span, span, span)) {
    return false;
  }
  os::advise_huge_pages(reinterpret_cast<void*>(arena.start()), arena.size(), settings.huge_pages);
  return true;
}

void put_in_pool(Lab& lab, Span& span) {
  const uint32_t class_of_span = span.size_class.load(kRelaxed);  // relaxed: only the caller has it
  const SizeClass& shape = kSizeClasses[class_of_span];
  // relaxed: only the caller has it
  const auto used = static_cast<uint32_t>(kSpanHeader) + span.bump.load(kRelaxed);
  const uint32_t touched = span.touched.load(kRelaxed);    // relaxed: as above
  if (used > touched) span.touched.store(used, kRelaxed);  // relaxed: published with the stack
  span.bump.store(0, kRelaxed);                            // relaxed: as above
  const bool give_back = settings.madvise == Madvise::eager ||
                         (settings.madvise == Madvise::on && shape.real_span > kMadviseThreshold);
  if (give_back && madvise_span(span)) lab.note(Event::madvise_calls);
  lab.note(Event::spans_to_pool);
  stack_of(shape.real_span_index, core_of(lab)).push(SpanLinks(), number_of(span));
}

namespace {

// A span of any size that no other thread has; null if there is none.
Span* take_any(Lab& lab, unsigned size_class) {
  if (Span* span = pop(kSizeClasses[size_class].real_span_index, core_of(lab))) {
    lab.note(Event::spans_from_own_stack);
    return span;
  }
  const uint32_t used_cores = static_cast<uint32_t>(min_of(cores, labs_made()));
  for (uint32_t index = 0; index < kRealSpans; index++) {
    for (uint32_t core = 0; core < used_cores; core++) {
      if (Span* span = pop(index, core)) {
        lab.note(Event::spans_from_search);
        return span;
      }
    }
  }
  if (const uint32_t number = looked_at.spans.pop(SpanLinks())) {
    lab.note(Event::spans_from_search);
    return &span_at(number);
  }
  const SizeClass& shape = kSizeClasses[size_class];
  return take_fresh_span(lab, align_up(shape.real_span, page_size), shape.real_span_index,
                         core_of(lab));
}

// Moves the end of the real span, if the span had another size. False if memory is refused.
bool fit(Lab& lab, Span& span, size_t real_span) {
  const size_t before = span.accessible.load(kRelaxed);  // relaxed: only the caller has it
  if (before == real_span) return true;
  const size_t now = move_guard(reinterpret_cast<char*>(&span), before, real_span);
  if (now == before) return now >= real_span;
  lab.note(Event::guards_moved);
  // relaxed: as above
  span.accessible.store(static_cast<uint32_t>(now), kRelaxed);
  if (span.touched.load(kRelaxed) > now) span.touched.store(static_cast<uint32_t>(now), kRelaxed);
  return true;
}

}  // namespace

Span* get_from_pool(Lab& lab, unsigned size_class) {
  Span* span = take_any(lab, size_class);
  if (span == nullptr) return nullptr;
  const SizeClass& shape = kSizeClasses[size_class];
  if (fit(lab, *span, align_up(shape.real_span, page_size))) return span;
  stack_of(shape.real_span_index, core_of(lab)).push(SpanLinks(), number_of(*span));
  return nullptr;
}

// Takes one span at a time out of the pool and puts it on the stack `looked_at`, which allocations
// search too; puts all of them back at the end.
bool trim_pool() {
  bool any = false;
  for (uint32_t index = 0; index < kRealSpans; index++) {
    for (uint32_t core = 0; core < cores; core++) {
      while (Span* span = pop(index, core)) {
        any |= madvise_span(*span);
        looked_at.spans.push(SpanLinks(), number_of(*span));
      }
      while (const uint32_t number = looked_at.spans.pop(SpanLinks())) {
        stack_of(real_span_index(span_at(number)), core).push(SpanLinks(), number);
      }
    }
  }
  return any;
}

size_t used_stacks(uint32_t real_span_index) {
  size_t used = 0;
  for (uint32_t core = 0; core < cores; core++) {
    used += stack_of(real_span_index, core).was_used() ? 1 : 0;
  }
  return used;
}

}  // namespace near::design::scalloc
