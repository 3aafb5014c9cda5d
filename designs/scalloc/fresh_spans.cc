#include "designs/scalloc/fresh_spans.h"

#include "designs/scalloc/guard.h"
#include "designs/scalloc/span_pool.h"
#include "sync/tagged_stack.h"

namespace near::design::scalloc {
namespace {

constexpr size_t kBatchRoomStep = 64 * kKiB;
constexpr uint32_t kLeastInBatch = 4;
constexpr uint32_t kGuarded = uint32_t{1} << 31;
constexpr uint64_t kOneLess =
    (uint64_t{1} << 32) - 1;  // the next span becomes the first; one span fewer

struct alignas(64) Batch {
  Atomic<uint64_t> word{0};
  Atomic<uint32_t> real_span{0};  // accessible bytes of guarded spans; the same for all of a word
  Atomic<uint32_t> prepared{0};   // spans prepared so far
};

constinit Arena batch_room;  // holds the batches
Batch* batches = nullptr;    // [kRealSpans][batch_cores]
uint32_t batch_count = 0;
uint32_t batch_cores = 1;
constinit TaggedStack spare;  // spans prepared for a word that another thread filled first

uint32_t spans_in(uint64_t word) { return static_cast<uint32_t>(word) & ~kGuarded; }

Span* take_from(Batch& batch) {
  uint64_t word = batch.word.load(kAcquire);  // pairs: scalloc-fresh
  do {
    if (spans_in(word) == 0) return nullptr;
    // pairs: scalloc-fresh
  } while (!batch.word.compare_exchange_weak(word, word + kOneLess, kAcquire, kAcquire));
  Span& span = span_at(static_cast<uint32_t>(word >> 32));
  // relaxed: written before the first batch was filed
  const uint32_t real_span = batch.real_span.load(kRelaxed);
  const bool guarded = (static_cast<uint32_t>(word) & kGuarded) != 0;
  // relaxed: the span is the caller's alone
  span.accessible.store(guarded ? real_span : static_cast<uint32_t>(settings.virtual_span),
                        kRelaxed);
  return &span;
}

Span* take_spare() {
  const uint32_t number = spare.pop(SpanLinks());
  return number != 0 ? &span_at(number) : nullptr;
}

// Files the spans after the first, which the caller takes.
void file(Batch& batch, Span& first, uint32_t count, size_t accessible) {
  const uint32_t guarded = accessible < settings.virtual_span ? kGuarded : 0;
  const uint64_t filed = uint64_t{number_of(first) + 1} << 32 | guarded | (count - 1);
  uint64_t word = batch.word.load(kRelaxed);  // relaxed: the exchange checks it
  while (spans_in(word) == 0) {
    // pairs: scalloc-fresh
    if (batch.word.compare_exchange_weak(word, filed, kRelease, kRelaxed)) return;
  }
  for (uint32_t i = 1; i < count; i++) {
    Span& span = span_at(number_of(first) + i);
    span.accessible.store(static_cast<uint32_t>(accessible), kRelaxed);  // relaxed: spare publishes
    spare.push(SpanLinks(), number_of(span));
  }
}

// Prepares a batch, or a single span if there is no room for a batch; returns its first span.
Span* prepare(Lab& lab, Batch& batch, size_t real_span) {
  const uint32_t before = batch.prepared.load(kRelaxed);  // relaxed: only a measure
  auto count = static_cast<uint32_t>(max_of(kLeastInBatch, min_of(before / 4, kMostInBatch)));
  auto* start = static_cast<char*>(arena.take(count * settings.virtual_span));
  if (start == nullptr) {
    count = 1;
    start = static_cast<char*>(arena.take(settings.virtual_span));
  }
  if (start == nullptr) return nullptr;
  batch.prepared.fetch_add(count, kRelaxed);                          // relaxed: as above
  batch.real_span.store(static_cast<uint32_t>(real_span), kRelaxed);  // relaxed: `file` publishes
  lab.note(Event::fresh_batches);
  const size_t accessible =
      guard_batch(start, count, real_span) ? real_span : settings.virtual_span;
  Span& first = *reinterpret_cast<Span*>(start);
  first.accessible.store(static_cast<uint32_t>(accessible), kRelaxed);  // relaxed: the caller's
  file(batch, first, count, accessible);
  return &first;
}

}  // namespace

bool start_fresh_spans(uint32_t cores_there_are) {
  if (batches != nullptr) return true;
  batch_cores = cores_there_are;
  batch_count = kRealSpans * batch_cores;
  const size_t bytes = align_up(batch_count * sizeof(Batch), kBatchRoomStep);
  if (batch_room.size() == 0 && !batch_room.reserve(bytes, bytes, kBatchRoomStep, kBatchRoomStep))
    return false;
  batches = static_cast<Batch*>(batch_room.take(bytes));
  return batches != nullptr;
}

Span* take_fresh_span(Lab& lab, size_t real_span, uint32_t index, uint32_t core) {
  Batch& own = batches[index * batch_cores + core];
  Span* span = take_from(own);
  if (span == nullptr) span = take_spare();
  if (span == nullptr) span = prepare(lab, own, real_span);
  for (uint32_t i = 0; span == nullptr && i < batch_count; i++) span = take_from(batches[i]);
  if (span != nullptr) lab.note(Event::spans_from_arena);
  return span;
}

}  // namespace near::design::scalloc
