// The functions that the files of reclaim/ call in each other.
// Thread-safety: only a record's owner.
#pragma once

#include <algorithm>
#include <cstddef>

#include "nearmalloc/reclaim/impl/core.hpp"

namespace near::reclaim::impl {

// As `work`, for callers that know that the record is the calling thread's.
void work_of_own(Record& record) noexcept;

// Frees as many objects as the policy allows in one step; returns how many.
size_t free_by_policy(Record& record) noexcept;

// Records in the timeline how many objects wait as this epoch begins.
void record_garbage(Record& record, uint64_t epoch) noexcept;

// Sets how many objects to free at a time from now on. Called when a grace period has ended, and
// what it made safe was added to what waits. `left`: how many objects waited before that.
void adapt_quota(Record& record, size_t left) noexcept;

// Pays what a thread owes that went over the limit of bytes, by waiting. The first gives up the
// thread's pin meanwhile; the second is called without one.
void pay_under_token(Record& record) noexcept;
void pay_unpinned(Record& record) noexcept;

// QSBR: withdraws the thread's announcement, and announces the newest epoch again. Both require
// that the thread's stay says that the thread is inside the library; the second leaves it so that a
// guard of a handler nests.
void go_away(Record& record) noexcept;
void come_back(Record& record) noexcept;

// Looks once at what holds the epoch or the token; wakes the background reclaimer for a batch.
void check_others(Record& record) noexcept;
void check_epochs(Record& record) noexcept;
// Continues the scan, over at most `records` records; after the last one the epoch advances.
// False: some thread is in an older epoch.
bool scan_epochs(Record& record, uint32_t records) noexcept;
void check_token(Record& record) noexcept;
// At its next pin the thread looks, and moves the token if it does not move.
void look_at_token_soon(Record& record) noexcept;

// Expires the objects that no hazard or reservation holds; under Hyaline, sends the others.
void look(Record& record) noexcept;

// ibr, hyaline: a thread looks when it has retired so much; also the most that waits after a look.
inline size_t eras_limit(const Core& core) noexcept {
  return std::max<size_t>(core.settings.batch_size, EntryBlock::kEntries + 1);
}

// ibr, hyaline: looks when enough was retired, and frees.
void look_and_free(Record& record) noexcept;

// ibr, hyaline: begins an era of the process. Any thread, at any time.
void begin_process_era() noexcept;
bool eras_are_asymmetric() noexcept;

// ibr: begins an era, and expires the objects that no reservation holds. The second is called when
// enough was retired.
void look_at_intervals(Record& record) noexcept;
void intervals_retired(Record& record) noexcept;

// Hyaline: begins an era, and sends what is in the bags.
void look_at_batches(Record& record) noexcept;
// Drops the references of a list. The next look of any thread takes what nobody else has.
void drop_aside(Core& core, BatchNode* list) noexcept;

// Under `checkpoints`: expires what has aged and is in no slot.
void expire_unheld(Record& record) noexcept;

// Frees what waits beyond `limit`, whatever the policy: robust schemes promise a bound. If a
// deleter retires, this does nothing, and the code that runs the deleter frees.
void keep_bound(Record& record, size_t limit) noexcept;

// Returns how many objects in a thread's bags make the thread read the hazards.
size_t hazard_limit(const Core& core) noexcept;

}  // namespace near::reclaim::impl
