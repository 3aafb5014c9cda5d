#include "node/events.h"

#include "base/bits.h"
#include "platform/clock.h"
#include "platform/topology.h"
#include "sizes/size_class.h"

namespace near {

constinit EventRing event_ring;

namespace {

constexpr unsigned kNodeShift = 4;
constexpr unsigned kOtherShift = 10;
constexpr unsigned kTimeShift = 16;
constexpr unsigned kAmountShift = 48;
constexpr uint64_t kMostSlices = 0xffff;
constexpr uint64_t kSameMask = 0xffff;  // kind and nodes
constexpr uint64_t kTogether = 10;      // tenths of a second
static_assert(kMaxNodes <= 64);

uint64_t time_of(uint64_t word) { return word >> kTimeShift & 0xffff'ffff; }

Atomic<uint64_t>& slot(uint32_t number) { return event_ring.words[number % kEvents]; }

// Adds to the last event if this is one more of its kind, soon after it.
bool add_to_last(uint32_t next, uint64_t word) {
  Atomic<uint64_t>& last = slot(next - 1);
  uint64_t before = last.load(kRelaxed);  // relaxed: the word is all that there is
  if (((before ^ word) & kSameMask) != 0 || time_of(word) - time_of(before) > kTogether) {
    return false;
  }
  const uint64_t sum = min_of((before >> kAmountShift) + (word >> kAmountShift), kMostSlices);
  const uint64_t low = before & ((uint64_t{1} << kAmountShift) - 1);
  // If it fails, another thread's event is there, and this one is missing in the sum.
  last.compare_exchange_strong(before, low | sum << kAmountShift, kRelaxed);  // relaxed: as above
  return true;
}

}  // namespace

void record_event(EventKind kind, unsigned node, unsigned other, size_t bytes) {
  const uint64_t tenths = coarse_now_ms() / 100 & 0xffff'ffff;
  const uint64_t slices = min_of(div_up(bytes, kSliceSize), kMostSlices);
  const uint64_t word = static_cast<uint64_t>(kind) | uint64_t{node} << kNodeShift |
                        uint64_t{other} << kOtherShift | tenths << kTimeShift |
                        slices << kAmountShift;
  const uint32_t next = event_ring.next.load(kRelaxed);  // relaxed: each event is one word
  if (next > 0 && add_to_last(next, word)) return;
  slot(event_ring.next.fetch_add(1, kRelaxed)).store(word, kRelaxed);  // relaxed: as above
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
