// Objects that a program compiled with NEAR_CHECK retired by type, until they are freed: one that
// is retired twice is noticed.
//
// Invariant: what is noted is in some limbo, about to go there, or lost.
// Who may touch it: any thread; the lock around fork only the forking one.
#pragma once

namespace near::reclaim::impl {

bool notes_retired() noexcept;  // some object was noted
void forget_retired(const void* object) noexcept;

// Around fork, after the lock of the domains.
void lock_retired() noexcept;
void unlock_retired() noexcept;
void reset_retired_lock() noexcept;  // in the child

}  // namespace near::reclaim::impl
