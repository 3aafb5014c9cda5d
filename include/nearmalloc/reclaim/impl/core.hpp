// The part of a domain that does not depend on its scheme; compiled in reclaim/.
//
// Thread-safety: any thread, except where a function says otherwise.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "nearmalloc/reclaim/impl/aside.hpp"
#include "nearmalloc/reclaim/impl/flights.hpp"
#include "nearmalloc/reclaim/impl/loose_slots.hpp"
#include "nearmalloc/reclaim/impl/record.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "nearmalloc/reclaim/options.hpp"

namespace near::reclaim::impl {

struct Use;  // reclaim/process.h

// Gives the tests access to the parts of a domain; the tests define it.
struct TestAccess;

// Gives interfaces that do not use guards access to the parts of a domain (impl/unguarded.hpp).
struct Unguarded;

enum class Scheme : uint8_t {
  leaky,
  epochs,
  sections,
  quiescence,
  token,
  hazards,
  ping,
  intervals,
  batches
};
// Whether objects have lives.
constexpr bool has_eras(Scheme scheme) {
  return scheme == Scheme::intervals || scheme == Scheme::batches;
}
enum class TokenPass : uint8_t { after_free, before_free, while_freeing };

// What the compiled part has to know about a scheme.
struct Traits {
  Scheme scheme;
  TokenPass pass = TokenPass::before_free;
  bool frees_quiescent = false;    // DEBRA: frees before it announces
  bool deleters_may_wait = false;  // no deleter runs in a pin, so deleters may call synchronize
};

// A thread that stays attached and does nothing does not block others, but what it retired would
// wait for it. So other threads take that over: at every kIdleTime-th epoch, the first thread to
// enter it looks for threads that have been idle for kIdleTime, and takes from kTakenAtOnce of
// them; the epochs that follow take from more. So what n idle threads retired is handed over within
// 2 * kIdleTime + n / kTakenAtOnce epochs (rounds, looks at hazards), unless a barrier runs.
inline constexpr uint64_t kIdleTime = 8;
inline constexpr unsigned kTakenAtOnce = 8;

using Visit = void (*)(Record&) noexcept;

class Core {
 public:
  Core(const options& settings, const Traits& traits, const FreeRun& run) noexcept;
  // Requires that no thread is pinned, nor will be. Runs every deleter.
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Returns a record for the calling thread. Null: no memory.
  Record* attach() noexcept;
  void detach(Record& record) noexcept;
  void go_offline(Record& record) noexcept;
  void come_online(Record& record) noexcept;
  // The record that the calling thread uses without a handle; attached on first use.
  Record* of_this_thread() noexcept;
  // The record that the calling thread uses without a handle. Null: it has not used the domain so.
  Record* found() const noexcept;
  // As of_this_thread, in a signal handler. Aborts if there is no record yet.
  Record& in_handler() noexcept;

  void synchronize() noexcept;
  void barrier() noexcept;
  statistics collect() const noexcept;

  // Returns an empty slot for std26::hazard_pointer; null: no memory. The calling thread keeps some
  // of those it gives back, so only one domain of a process, which never ends, may have such slots.
  LooseSlot* take_loose_slot() noexcept;
  void give_back_loose_slot(LooseSlot& slot) noexcept;
  void take_kept_slots(KeptSlots& kept) noexcept;  // of a thread that ends

  // What a background reclaimer does in a round: frees what is safe of all threads, and brings the
  // rest nearer to its end. Returns how many objects it freed. `visit` does what an operation of
  // the scheme does when it begins and ends; the thread must not be pinned. reclaim/background.cc
  size_t reclaim_all(Record& me, Visit visit) noexcept;
  size_t reclaim_all_once(Visit visit) noexcept;  // by a thread of the program
  // Wakes the background reclaimer, if there is one that sleeps.
  void wake_reclaimer() noexcept;

  // Keeps an object for which there was no memory until a limbo has room.
  void set_aside(Retirable& words) noexcept { aside_.push(words); }
  // Called by a thread that is pinned: moves what was set aside to its limbo. Does nothing during a
  // barrier, for the reason that adopt_left has.
  void adopt_aside(Record& into) noexcept {
    if (!aside_.is_empty()) [[unlikely]]
      adopt_aside_slow(into);
  }

  // The limit of bytes: reclaim/budget.cc. These two require the record's lock.
  void return_surplus(Record& record) noexcept;
  void return_all_credit(Record& record) noexcept;
  // Whether the record has credit for so many bytes, after taking it from the reserve; if so, they
  // are promised to the caller until `keep_promise`.
  bool take_credit(Record& record, int64_t bytes) noexcept;
  void keep_promise(Record& record, int64_t bytes) noexcept;
  // The first also reclaims for it, the second until it has credit, the third without a pin.
  bool reclaim_for(Record& me, int64_t bytes) noexcept;
  void wait_for_credit(Record& me) noexcept;
  void wait_unpinned(Record& me) noexcept;
  bool is_reserve_low() const noexcept;
  // Whether threads have to report quiescent states: QSBR.
  bool has_reports() const noexcept { return traits.scheme == Scheme::quiescence; }
  // Whether the fences of epochs are asymmetric: light at pins, heavy in scans. Under QSBR, where
  // pins have none, all are full.
  bool has_asymmetric_fences() const noexcept { return asymmetric && !has_reports(); }
  bool has_epochs() const noexcept {
    return traits.scheme == Scheme::epochs || traits.scheme == Scheme::ping || has_sections() ||
           has_reports();
  }
  // Whether threads keep their places in slots from one section to the next.
  bool has_sections() const noexcept { return traits.scheme == Scheme::sections; }
  // `leaky` keeps no account.
  bool is_limited() const noexcept {
    return settings.max_unreclaimed_bytes != 0 && traits.scheme != Scheme::leaky;
  }
  // Whether objects are freed only after a look that found that nothing holds them.
  bool has_only_looks() const noexcept { return traits.scheme == Scheme::hazards || has_eras(); }
  bool has_eras() const noexcept { return impl::has_eras(traits.scheme); }
  // Whether a thread that stalls keeps only some objects; whether it keeps those in its slots.
  bool is_robust() const noexcept { return has_slots() || has_eras(); }
  bool has_slots() const noexcept {
    return traits.scheme == Scheme::hazards || traits.scheme == Scheme::ping;
  }
  void record_over_limit() noexcept { over_limit_.fetch_add(1, kRelaxed); }  // relaxed: a counter

  // Counts a retirement that found no memory even for a record.
  void lose() noexcept { lost_.fetch_add(1, kRelaxed); }  // relaxed: a counter
  // A batch has landed that was counted as lost at a fork.
  void find_again(uint64_t objects, uint64_t bytes) noexcept {
    lost_.fetch_sub(objects, kRelaxed);                         // relaxed: a counter
    reserve_.fetch_sub(static_cast<int64_t>(bytes), kRelaxed);  // relaxed: an amount
  }

  // Each lies apart from the others: all threads read them in each look, and one thread writes.
  alignas(128) EpochClock clock;
  alignas(128) TokenRing ring;
  alignas(128) Atomic<Record*> records{nullptr};
  Atomic<LooseSlot*> loose_slots{nullptr};
  alignas(128) Flights flights;
  alignas(128) const options settings;  // from here to `serial`: constants, which all threads read
  const Traits traits;
  const FreeRun run;
  const bool asymmetric;
  const uint64_t serial;  // unique among the domains of a process

  // For the parts of the protocol in reclaim/*.cc; defined in reclaim/core.cc,
  // report.cc and fork.cc.
  void record_epoch(Record& by, uint64_t epoch) noexcept;  // in constant time
  // Adds what the record holds now to the sum that record_epoch reads. Requires the record's lock.
  // Each thread calls it once in an epoch, and whenever objects move to another record.
  void count_garbage(Record& record) noexcept;
  void record_blocked(Record& by, Record& blocker, uint64_t state) noexcept;
  void record_look() noexcept { looks_.fetch_add(1, kRelaxed); }  // relaxed: a counter
  // `by_slots`: also takes what is not known to be safe, as the caller is about to read slots.
  void adopt_left(Record& into, bool by_slots) noexcept;
  uint64_t now() const noexcept;  // the domain's time: the epoch, the round, or looks at hazards
  uint64_t bound() const noexcept;
  // Whether now() is at least `distance` after `then`.
  bool has_passed(uint64_t then, uint64_t distance) const noexcept;
  // Called in the child of a fork; `survivor`: the forking thread's number in the parent.
  void abandon_other_threads(int32_t survivor) noexcept;

  Atomic<uint32_t> reclaimer{0};  // reclaim/reclaimer_word.h

  Core* next_core = nullptr;  // guard: the list of domains
  Use* users = nullptr;       // threads without a handle; guard: the list of domains
  // Written under the lock of all domains; also read without, by the thread that ends this one.
  bool has_ended = false;

 private:
  friend struct TestAccess;

  void expect_unused(uint32_t threads) const noexcept;
  static bool take(Record& record, uint32_t from, uint32_t to) noexcept;
  Record* reuse() noexcept;
  Record* make_record() noexcept;
  void park(Record& record, uint32_t state) noexcept;
  void unpark(Record& record) noexcept;
  static uint32_t claim_parked(Record& record) noexcept;
  void adopt_parked(Record& into, bool by_slots) noexcept;
  void adopt_idle(Record& into) noexcept;
  void take_idle(Record& record, Record& into) noexcept;
  bool is_idle(const Record& record) const noexcept;
  Record& to_wait_with(const char* misuse, bool in_deleters) noexcept;
  void end_wait(Record& me) noexcept;
  void free_everything(Record& me) noexcept;
  void wait_for_grace(Record& me) noexcept;
  bool advance_or_report(EpochWords<Record>& words, Record& me) noexcept;
  void wait_for_epochs(Record& me) noexcept;
  bool take_limbo(Record& record, Record& me, bool only_safe) noexcept;
  void take_from_all(Record& me, bool only_safe) noexcept;
  void wait_for_flights(Record& me) noexcept;
  void land_all() noexcept;
  void rescue_flights(int32_t survivor) noexcept;
  void settle_reserve() noexcept;
  void adopt_aside_slow(Record& into) noexcept;
  Retirable* move_aside(Record& into) noexcept;
  int64_t credit_share() const noexcept;
  void collect_from_others(Record& me, bool all) noexcept;
  void collect_from(Record& record, Record& me, bool all) noexcept;
  bool waits_for_itself(const Record& me) const noexcept;
  void wait_for_rounds(Record& me) noexcept;
  void free_when_let_go(Record& me) noexcept;
  void wait_for_slots(Record& me) noexcept;
  void wait_for_places(Record& me) noexcept;

  alignas(128) Atomic<uint32_t> record_count_{0};
  Atomic<uint32_t> free_slots_{0};  // loose slots that nobody uses or keeps; a hint
  Aside<Retirable> aside_;
  Atomic<uint32_t> parked_{0};           // records without a thread and with something in them
  Atomic<uint64_t> idle_looked_for_{0};  // when last; guard: barrier_, but read as a hint
  pthread_mutex_t barrier_ = PTHREAD_MUTEX_INITIALIZER;  // one barrier at a time
  Atomic<int64_t> reserve_;                              // credit that no thread has
  Atomic<uint64_t> over_limit_{0};
  Atomic<uint64_t> lost_{0};
  Atomic<uint64_t> epochs_{0};
  Atomic<uint64_t> looks_{0};
  Atomic<uint64_t> stalls_{0};
  Atomic<uint64_t> peak_{0};
  Atomic<uint64_t> sum_{0};      // of unreclaimed objects, over epochs
  Atomic<uint64_t> garbage_{0};  // the sum of all counted_garbage
};

// The slow halves of pin and retire, by scheme: reclaim/epochs.cc, token.cc, hazards.cc,
// intervals.cc, batches.cc, work.cc.
void epochs_pinned(Record& record, bool current) noexcept;
void epochs_before_pin(Record& record) noexcept;
void report_slow(Record& record) noexcept;
// Begins the next section, and does what a pin would do.
void begin_section(Record& record) noexcept;
void hazards_retired(Record& record) noexcept;
void intervals_before_pin(Record& record) noexcept;
void batches_before_pin(Record& record) noexcept;
// Drops the references of a list; frees later what nobody else has.
void batches_let_go(Record& record, BatchNode* list) noexcept;
// Closes the list that an unpin has left open which this thread interrupts.
void batches_left_open(Record& record) noexcept;
void work(Record& record) noexcept;
// reclaim/stay.cc. Begins a guard inside others, or inside the library.
void pin_unsettled(Record& record) noexcept;
// Withdraws the announcement that a handler left. Requires that the thread is not pinned.
void let_go(Record& record) noexcept;
// Begins a handler's guard; returns whether the thread was outside.
bool enter_in_handler(Record& record) noexcept;
void leave_in_handler(Record& record, bool was_outside) noexcept;
size_t free_now(Record& record, size_t most) noexcept;
// reclaim/away.cc. The calling thread becomes the owner of a record that another thread gave it.
void adopt(Record& record) noexcept;
// Counts an object for which there was no memory, and which is leaked.
void lose(Record& record) noexcept;
// reclaim/budget.cc. The calling thread has retired more than its credit: gets credit, or reclaims,
// or waits, or goes over the limit.
void pay_debt(Record& record) noexcept;
// Room within the limit for one retirement, after reclaiming if need be; while this lives, no other
// thread takes it.
class Promise {
 public:
  Promise(Record& record, size_t bytes) noexcept;
  ~Promise();
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  // False: there is no room.
  explicit operator bool() const noexcept { return given_; }

 private:
  Record& record_;
  int64_t bytes_;
  bool given_;
};
size_t free_by_hand(Record& record, size_t most) noexcept;

// Misuse. A release build notices it in slow functions; a program that defines NEAR_CHECK as 1
// notices it at each call. domain.hpp has the table; the code is in reclaim/misuse.cc.
#if defined(NEAR_CHECK) && NEAR_CHECK
inline constexpr bool kChecksUse = true;
#else
inline constexpr bool kChecksUse = false;
#endif

// Aborts unless the record belongs to the calling thread, and is not offline.
void expect_own(const Record& record) noexcept;
// Notes that `object` will be retired; aborts if it is null or was retired before.
void record_retired(const void* object) noexcept;

inline void check_use(const Record& record) noexcept {
  if constexpr (kChecksUse) expect_own(record);
}
inline void check_retired(const void* object) noexcept {
  if constexpr (kChecksUse) record_retired(object);
}

// The record that the calling thread uses in the domain without a handle; attached on first use.
// Null: there is no memory.
inline Record* own_record(Core& core) noexcept {
  const Recent& recent = recents[core.serial % kRecents];
  if (recent.serial == core.serial) [[likely]]
    return recent.record;
  return core.of_this_thread();
}

// As own_record. Null: the thread has not used the domain so.
inline Record* own_record_if_any(const Core& core) noexcept {
  const Recent& recent = recents[core.serial % kRecents];
  return recent.serial == core.serial ? recent.record : core.found();
}

// Ends a guard that is not the last of its thread.
inline void leave_nested(Record& record) noexcept {
  if (record.stay.guards() == 0) [[unlikely]]
    fail_with("a guard ends that has ended before");
  record.stay.remove_guard();
}

}  // namespace near::reclaim::impl
