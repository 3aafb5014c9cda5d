#include "node/events.h"

#include "base/bits.h"
#include "node/memory.h"
#include "platform/clock.h"
#include "platform/probe.h"
#include "platform/topology.h"

namespace near {

constinit EventRing event_ring;

namespace {

constexpr unsigned kNodeShift = 4;
constexpr unsigned kOtherShift = 10;
constexpr unsigned kTimeShift = 16;
constexpr unsigned kAmountShift = 48;
constexpr uint64_t kMostSlices = kMostEventBytes / kSliceSize;
constexpr uint64_t kSameMask = 0xffff;  // kind and nodes
constexpr uint64_t kTogether = 10;      // tenths of a second
static_assert(kMaxNodes <= 64);

uint64_t time_of(uint64_t word) { return word >> kTimeShift & 0xffff'ffff; }

Atomic<uint64_t>& slot(uint32_t number) { return event_ring.words[number % kEvents]; }

// True if both are of one kind and the same nodes, and at most a second apart. A thread may have
// read the clock before the other and come later.
bool belong_together(uint64_t one, uint64_t other) {
  const uint64_t a = time_of(one);
  const uint64_t b = time_of(other);
  return ((one ^ other) & kSameMask) == 0 && max_of(a, b) - min_of(a, b) <= kTogether;
}

// Adds to the event in a slot if the word belongs to it.
bool add_to(Atomic<uint64_t>& place, uint64_t word) {
  uint64_t before = place.load(kRelaxed);  // relaxed: the word is all that there is
  while (belong_together(before, word)) {
    const uint64_t sum = min_of((before >> kAmountShift) + (word >> kAmountShift), kMostSlices);
    const uint64_t after = (before & ((uint64_t{1} << kAmountShift) - 1)) | sum << kAmountShift;
    // Threads that add nothing to the sum share the word without writing to it. relaxed: as above
    if (after == before || place.compare_exchange_strong(before, after, kRelaxed)) return true;
  }
  return false;
}

bool add_to_open(uint32_t next, uint64_t word) {
  for (uint32_t back = 1; back <= min_of(next, kOpen); back++) {
    if (add_to(slot(next - back), word)) return true;
  }
  return false;
}

// Tells tracers of each event, also of one that the ring adds to another. Nodes are the kernel's.
void probe(EventKind kind, unsigned node, unsigned other, size_t bytes) {
  const unsigned on = topology.kernel_id[node];
  const unsigned by = topology.kernel_id[other];
  switch (kind) {
    case EventKind::none:
      return;
    case EventKind::spill:
      NEAR_PROBE("spill", on, by, bytes);
      return;
    case EventKind::growth:
      NEAR_PROBE("growth", on, by, bytes);
      return;
    case EventKind::purge:
      NEAR_PROBE("purge", on, by, bytes);
      return;
    case EventKind::bind_refused:
      NEAR_PROBE("bind_refused", on, by, bytes);
      return;
    case EventKind::error:
      NEAR_PROBE("error", on, by, bytes);
      return;
  }
}

Atomic<uint64_t>& begun(EventKind kind, unsigned node) {
  return event_ring.begun[node][static_cast<unsigned>(kind) - 1];
}

}  // namespace

void record_event(EventKind kind, unsigned node, unsigned other, size_t bytes) {
  probe(kind, node, other, bytes);
  const uint64_t tenths = coarse_now_ms() / 100 & 0xffff'ffff;
  const uint64_t slices = min_of(div_up(bytes, kSliceSize), kMostSlices);
  const uint64_t word = static_cast<uint64_t>(kind) | uint64_t{node} << kNodeShift |
                        uint64_t{other} << kOtherShift | tenths << kTimeShift |
                        slices << kAmountShift;
  uint32_t next = event_ring.next.load(kRelaxed);  // relaxed: each event is one word
  do {
    if (add_to_open(next, word)) return;
    // relaxed: as above. If it fails, this may belong to the event that another thread just began.
  } while (!event_ring.next.compare_exchange_strong(next, next + 1, kRelaxed));
  slot(next).store(word, kRelaxed);          // relaxed: as above
  begun(kind, node).fetch_add(1, kRelaxed);  // relaxed: a sum for people
}

uint64_t event_count(EventKind kind, unsigned node) {
  return begun(kind, node).load(kRelaxed);  // relaxed: a sum for people
}

Event recent_event(unsigned back) {
  const uint32_t next = event_ring.next.load(kRelaxed);  // relaxed: each event is one word
  if (back >= min_of(next, kEvents)) return {};
  const uint64_t word = slot(next - 1 - back).load(kRelaxed);  // relaxed: as above
  return {static_cast<EventKind>(word & 0xf), static_cast<unsigned>(word >> kNodeShift & 0x3f),
          static_cast<unsigned>(word >> kOtherShift & 0x3f), time_of(word),
          (word >> kAmountShift) * kSliceSize};
}

}  // namespace near
