// What a domain knows about one attached thread. Records are never freed before their domain: a
// thread that leaves parks its record with the limbo in it, and the next thread that attaches takes
// both.
//
// Thread-safety: any thread reads the atomic words and constants before `core`, the hazards and the
// counters of the limbo; only the owner uses the rest, or another thread that has claimed `lock`.
#pragma once

#include <cstdint>

#include "nearmalloc/reclaim/impl/epoch.hpp"
#include "nearmalloc/reclaim/impl/flights.hpp"
#include "nearmalloc/reclaim/impl/hazard.hpp"
#include "nearmalloc/reclaim/impl/interval.hpp"
#include "nearmalloc/reclaim/impl/limbo.hpp"
#include "nearmalloc/reclaim/impl/owner_lock.hpp"
#include "nearmalloc/reclaim/impl/owner_word.hpp"
#include "nearmalloc/reclaim/impl/stay.hpp"
#include "nearmalloc/reclaim/impl/token.hpp"
#include "nearmalloc/reclaim/timeline.hpp"

namespace near::reclaim::impl {

class Core;

struct alignas(128) Record {
  Record(Core& its_core, uint32_t its_index) : index(its_index), core(&its_core) {}

  EpochWords<Record> epoch;
  TokenWords token;
  IntervalWords interval;
  BatchLists<BatchNode> lists;
  Atomic<uint32_t> attached{kAttached};
  OwnerWord owner;
  Atomic<uint64_t> active_at{0};          // the domain's time when the owner last looked at it
  Atomic<uint64_t> reported{UINT64_MAX};  // the stall that was reported last
  Atomic<uint64_t> freeing_ns{0};         // written by the owner
  const uint32_t index;
  Record* next = nullptr;  // constant once the record is in the list

  // From here to `limbo`: only the owner, or the claimant of `lock`.
  alignas(128) Core* const core;
  const void* user = nullptr;  // this_user() of the owner
  Stay stay;
  bool due = true;           // there is work at the next pin
  bool interrupted = false;  // a handler left its announcement
  bool is_present = false;   // QSBR: its announcement is out
  bool in_debt = false;      // over the limit of bytes: waits at its next pin
  uint32_t since_check = 0;
  uint32_t since_free = 0;
  size_t quota = 1;              // adaptive: objects each time
  uint64_t turns = 0;            // adaptive: times it freed since the last grace period
  track* row = nullptr;          // in the timeline, if there is one
  bool working = false;          // a deleter runs: it must not start work again
  size_t look_at = 0;            // with so many objects in the current bag, hazards are read
  bool look_is_due = false;      // ibr: at the next pin
  bool is_offline = false;       // parked by an offline_scope that has not ended
  bool has_left = false;         // parked with something in the limbo
  uint64_t parked_at = 0;        // the domain's time when it was parked
  uint64_t counted_garbage = 0;  // its part of Core::garbage_; guard: lock
  const Record* blocker = nullptr;
  uint64_t blocker_state = 0;
  uint64_t blocked_since = 0;  // ms
  OwnerLock lock;
  Limbo limbo;

  alignas(128) HazardWords hazards;
};

}  // namespace near::reclaim::impl
