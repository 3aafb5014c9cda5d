// A ring of rare events, for people: spills, growth, memory given back, refused binds, errors of
// the program that were detected.
//
// An event is one word, so that a reader sees it whole or not at all, whichever thread writes it
// and whatever else happens meanwhile; a word that is overwritten is an event that is forgotten:
//   word = { amount in slices : 16 | time in tenths of a second : 32 | other node : 6 | node : 6 |
//            kind : 4 }; 0: none yet
// An event is added to one of the last kOpen slots if that has its kind and nodes and began within
// a second of it. So a burst does not drive the others out, even if its kinds and nodes alternate:
// up to kOpen of them fill a slot each, once a second. Two threads that begin an event of the same
// kind and nodes at once may fill two slots.
// Each event is also a USDT probe with the name of its kind (platform/probe.h).
// Not recorded are the pages that a heap gives back inside its spans (heap/sweep.cc).
// Invariant: `next` slots were filled; the last kEvents of them are in the ring, number n in slot n
// modulo kEvents, except that a writer may not have stored its own yet.
// Thread-safety: any thread, with any locks held. Slow paths alone record events; one that changes
// no word, such as a spill after another within a second, writes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/compiler.h"
#include "platform/topology.h"
#include "sizes/size_class.h"

namespace near {

enum class EventKind : uint8_t { none, spill, growth, purge, bind_refused, error };

struct Event {
  EventKind kind;
  unsigned node;    // numbers of this library, not of the kernel
  unsigned other;   // spill: the node that served
  uint64_t tenths;  // CLOCK_MONOTONIC, in tenths of a second
  size_t bytes;     // kMostEventBytes: so many or more
};

inline constexpr unsigned kEventKinds = 5;  // without `none`
inline constexpr unsigned kEvents = 256;
inline constexpr unsigned kOpen = 32;
inline constexpr size_t kMostEventBytes = 0xffff * kSliceSize;

struct EventRing {
  alignas(64) Atomic<uint32_t> next{0};
  alignas(64) Atomic<uint64_t> words[kEvents] = {};  // apart from `next`, which all writers read
  // Events that began, of each kind of each node: also those that the ring has forgotten.
  alignas(64) Atomic<uint64_t> begun[kMaxNodes][kEventKinds] = {};
};
extern NEAR_HIDDEN EventRing event_ring;

NEAR_COLD void record_event(EventKind kind, unsigned node, unsigned other, size_t bytes);

// The event `back` slots before the last one; of kind `none` if there is none.
Event recent_event(unsigned back);

// How many events of the kind began on the node.
uint64_t event_count(EventKind kind, unsigned node);

}  // namespace near
