// What the files of reclaim/ ask of each other.
// Who may touch it: a record's owner.
#pragma once

#include <cstddef>

#include "nearmalloc/reclaim/impl/core.hpp"

namespace near::reclaim::impl {

// Frees what the policy allows at once; how many objects.
size_t free_by_policy(Record& record) noexcept;

// For the timeline: what waits as this epoch begins.
void note_garbage(Record& record, uint64_t epoch) noexcept;

// A grace period ended, and what it made safe was added to what waits: how much to free at a time
// from now on. `left`: objects that waited already.
void adapt_quota(Record& record, size_t left) noexcept;

// One look at what holds the epoch or the token.
void check_others(Record& record) noexcept;
void check_epochs(Record& record) noexcept;
// Goes on with the scan, over so many records at most; its last one advances the epoch. False: some
// thread is in an older epoch.
bool scan_epochs(Record& record, uint32_t records) noexcept;
void check_token(Record& record) noexcept;

// Lets go what no hazard holds.
void look_at_hazards(Record& record) noexcept;

// Frees what waits beyond `limit`, whatever the policy: robust schemes promise a bound. A deleter
// that retires leaves that to whoever runs it.
void keep_bound(Record& record, size_t limit) noexcept;

// Objects in bags from which on hazards are read.
size_t hazard_limit(const Core& core) noexcept;

}  // namespace near::reclaim::impl
