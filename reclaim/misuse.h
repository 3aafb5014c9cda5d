// Notes the objects that a program compiled with NEAR_CHECK retired by retire(T*), until they are
// freed, so that a second retirement is noticed.
//
// Invariant: a noted object is in some limbo, about to go there, or lost.
// Thread-safety: any thread; only the forking thread calls the functions around fork.
#pragma once

namespace near::reclaim::impl {

bool notes_retired() noexcept;  // whether any object was ever noted
void forget_retired(const void* object) noexcept;

// Called around fork; locked after the lock of the domains.
void lock_retired() noexcept;
void unlock_retired() noexcept;
void reset_retired_lock() noexcept;  // in the child

}  // namespace near::reclaim::impl
