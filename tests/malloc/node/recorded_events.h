// The ring of rare events as tests see it: forgotten, and as a list.
// Thread-safety: no other thread may record events meanwhile.
#pragma once

#include <vector>

#include "node/events.h"

namespace near_test {

inline void forget_events() {
  near::event_ring.next.store(0, near::kRelaxed);
  for (auto& word : near::event_ring.words) word.store(0, near::kRelaxed);
  for (auto& node : near::event_ring.begun) {
    for (auto& count : node) count.store(0, near::kRelaxed);
  }
}

// The events of one kind, the newest first.
inline std::vector<near::Event> recorded_events(near::EventKind kind) {
  std::vector<near::Event> found;
  for (unsigned back = 0; back < near::kEvents; back++) {
    const near::Event event = near::recent_event(back);
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

}  // namespace near_test
