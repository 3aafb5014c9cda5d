// A ring of rare events, for people: spills, growth, memory given back, refused binds, errors of
// the program that were detected.
//
// An event is one word, so that a reader sees it whole or not at all, whichever thread writes it
// and whatever else happens meanwhile; a word that is overwritten is an event that is forgotten:
//   word = { amount in slices : 16 | time in tenths of a second : 32 | other node : 6 | node : 6 |
//            kind : 4 }; 0: none yet
// Events of one kind and node that follow each other within a second are one event with the sum of
// their amounts, so that a burst does not drive the others out. Such a sum may miss some.
// Invariant: `next` events were recorded; the last kEvents of them are in the ring, event n in slot
// n modulo kEvents, except that a writer may not have stored its own yet.
// Thread-safety: any thread, with any locks held. Slow paths alone record events.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"

namespace near {

enum class EventKind : uint8_t { none, spill, growth, purge, bind_refused, error };

struct Event {
  EventKind kind;
  unsigned node;    // numbers of this library, not of the kernel
  unsigned other;   // spill: the node that served
  uint64_t tenths;  // CLOCK_MONOTONIC, in tenths of a second
  size_t bytes;     // at most 65,535 slices
};

inline constexpr unsigned kEvents = 256;

struct EventRing {
  Atomic<uint32_t> next{0};
  Atomic<uint64_t> words[kEvents] = {};
};
extern NEAR_HIDDEN EventRing event_ring;

NEAR_COLD void record_event(EventKind kind, unsigned node, unsigned other, size_t bytes);

// The event that was recorded `back` events before the last one; of kind `none` if there is none.
Event recent_event(unsigned back);

}  // namespace near
