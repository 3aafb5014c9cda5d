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

// A grace period ended: what it left over says how much to free at a time.
void adapt_quota(Record& record) noexcept;

// One look at what holds the epoch or the token.
void check_others(Record& record) noexcept;
void check_epochs(Record& record) noexcept;
void check_token(Record& record) noexcept;

// Epochs or rounds after which whatever was retired before is safe, whoever retired it.
inline constexpr uint64_t kGrace = 3;

// Lets go what no hazard holds.
void look_at_hazards(Record& record) noexcept;

// Frees what waits beyond `limit`, whatever the policy: robust schemes promise a bound. A deleter
// that retires leaves that to whoever runs it.
void keep_bound(Record& record, size_t limit) noexcept;

// Objects in bags from which on hazards are read.
size_t hazard_limit(const Core& core) noexcept;

}  // namespace near::reclaim::impl
