// The library's work inside a thread's operation: advancing the epoch or the token, and freeing as
// the policy says.
//
// Invariant: while `working`, deleters may retire and pin, but start no work of their own.
// Thread-safety: only the record's owner.
#include <algorithm>
#include <ctime>

#include "nearmalloc/reclaim/impl/core.hpp"
#include "platform/clock.h"
#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// An adaptive policy frees at least this part of the backlog each time: policy.hpp has the bound
// that follows. The number is large, as freeing one by one costs an allocator less than in runs.
constexpr size_t kSmallestPart = 1024;
// Under Token EBR, a thread that holds less than a batch looks at the token less often by this
// factor.
constexpr uint32_t kRarely = 8;
// Objects between two readings of the clock.
constexpr size_t kBudgetStep = 8;

size_t free_for(Record& record, uint64_t nanoseconds) noexcept {
  const uint64_t end = clock_ns(CLOCK_MONOTONIC) + nanoseconds;
  size_t freed = 0;
  do {
    freed += free_now(record, kBudgetStep);
  } while (record.limbo.waiting() > 0 && clock_ns(CLOCK_MONOTONIC) < end);
  return freed;
}

size_t rounded_up(size_t objects, size_t parts) noexcept { return (objects + parts - 1) / parts; }

size_t adaptive_share(const Record& record) noexcept {
  return std::max<size_t>(record.quota, rounded_up(record.limbo.waiting(), kSmallestPart));
}

bool frees_by_itself(const policy& how) noexcept { return how.type != policy::kind::manual; }

// Sets when there is work again.
void schedule(Record& record) noexcept {
  const Traits& traits = record.core->traits;
  const options& settings = record.core->settings;
  const bool frees = record.limbo.waiting() > 0 && frees_by_itself(settings.reclaim);
  const bool is_token = traits.scheme == Scheme::token;
  // The bags are added up only if that decides something: every operation that frees comes here.
  const bool decides = is_token || (!frees && !record.core->has_only_looks());
  const bool looks = decides && record.limbo.held() >= settings.batch_size;
  record.due = frees || looks;
  if (!is_token) return;
  uint32_t next = settings.operations_between_checks - record.since_check;
  if (!looks) next *= kRarely;
  if (frees) {
    const uint32_t every = settings.reclaim.every;
    next = std::min(next, every - std::min(record.since_free, every - 1));
  }
  record.token.interval = record.token.countdown = next;
}

}  // namespace

size_t free_now(Record& record, size_t most) noexcept {
  Core& core = *record.core;
  const bool measured = core.settings.measure_time;
  const uint64_t begin = measured ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
  record.lock.enter(core.asymmetric);
  const uint64_t recorded_from = record.row != nullptr ? timeline::now() : 0;
  const size_t freed = record.limbo.free_expired(most, core.run, &record);
  if (core.is_limited()) core.return_surplus(record);
  if (record.row != nullptr && freed > 0) {
    record.row->interval(kind::free_batch, recorded_from, timeline::now(), core.now(),
                         static_cast<uint32_t>(freed));
  }
  record.lock.leave();
  if (measured && freed > 0) {
    // relaxed: only the owner writes
    const uint64_t before = record.freeing_ns.load(kRelaxed);
    record.freeing_ns.store(before + clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin,
                            kRelaxed);  // relaxed: the same
  }
  return freed;
}

size_t free_by_hand(Record& record, size_t most) noexcept {
  expect_own(record);  // another thread may be taking what a record left behind
  const Inside inside(record);
  const bool was_working = record.working;
  record.working = true;
  const size_t freed = free_now(record, most);
  record.working = was_working;
  return freed;
}

size_t free_by_policy(Record& record) noexcept {
  const policy& how = record.core->settings.reclaim;
  switch (how.type) {
    case policy::kind::batch:
      return free_now(record, SIZE_MAX);
    case policy::kind::amortized:
      return free_now(record, how.objects);
    case policy::kind::adaptive:
      record.turns++;
      return free_now(record, adaptive_share(record));
    case policy::kind::budget:
      return free_for(record, how.nanoseconds);
    case policy::kind::manual:
      break;
  }
  return 0;
}

void record_garbage(Record& record, uint64_t epoch) noexcept {
  if (record.row == nullptr) return;
  record.row->sample(kind::unreclaimed, timeline::now(), record.limbo.unreclaimed(),
                     static_cast<uint32_t>(epoch));
}

// If objects were left over, every turn freed some: the next grace period should have as many
// turns. The quota at most doubles, so that one short grace period causes no long run.
void adapt_quota(Record& record, size_t left) noexcept {
  const size_t quota = record.quota;
  if (left >= EntryBlock::kEntries) {
    const size_t turns = std::max<uint64_t>(record.turns, 1);
    const size_t needed = rounded_up(record.limbo.waiting(), turns);
    record.quota = std::max(quota, std::min(needed, 2 * quota));
  } else if (left == 0 && quota > 1) {
    record.quota = quota - rounded_up(quota, 8);
  }
  record.quota = std::max<size_t>(record.quota, 1);
  record.turns = 0;
}

void work(Record& record) noexcept {
  expect_own(record);
  work_of_own(record);
}

void work_of_own(Record& record) noexcept {
  if (record.working) {
    record.token.countdown = record.token.interval = 1;
    return;
  }
  if (record.in_debt && record.core->traits.scheme == Scheme::token) pay_under_token(record);
  const Inside inside(record);
  record.working = true;
  const options& settings = record.core->settings;
  const bool counts = record.core->traits.scheme == Scheme::token;
  const uint32_t operations = counts ? record.token.interval : 1;
  record.since_check += operations;
  record.since_free += operations;
  const bool is_rare = record.core->has_reports();
  if (is_rare || record.since_check >= settings.operations_between_checks) {
    record.since_check = 0;
    check_others(record);
  }
  if (record.limbo.waiting() > 0 && record.since_free >= settings.reclaim.every &&
      frees_by_itself(settings.reclaim)) {
    record.since_free = 0;
    record.limbo.record_run(free_by_policy(record));
  }
  record.working = false;
  schedule(record);
}

}  // namespace near::reclaim::impl
