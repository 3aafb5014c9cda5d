// The reclamation schemes: what happens at pin, unpin, protect and retire.
//
//   leaky            nothing is ever freed: the control of every measurement
//   debra<order>     epochs, incremental scans, quiescence [Brown15; Kim23 §2.1.1]
//   checkpoints      as debra, but long walks keep their place in a slot, and let the epoch end
//                    [Kim24]
//   qsbr             epochs of threads that say when they hold no pointer [Hart07]
//   token<pass>      a token on a ring of threads [Kim23 §3.4]
//   hazard_pointers  robust: a thread that stalls keeps what it holds, and no more [Michael04]
//   ping_epochs      DEBRA that falls back to hazards when an epoch does not end: robust
//   ibr              robust without slots: a thread keeps what lived in its interval [Wen18]
//   hyaline          robust without slots; what is retired is freed by the thread that lets go of
//                    it last, so readers free as well as writers [Nikolaev21]
//
//   scheme           pointers read under a guard  a reader that stalls       unreclaimed objects
//   debra, token     all stay valid               stops every reclamation    no bound
//   checkpoints      all stay valid until the     stops every reclamation    no bound
//                    thread makes a checkpoint
//   qsbr             all stay valid, without a    stops every reclamation,    no bound
//                    guard too, until the thread  as does one that reports no
//                    reports                      quiescent state
//   hazard_pointers  those in a validated slot    keeps what its slots hold  statistics::bound
//   ping_epochs      those in a validated slot    keeps what its slots hold  statistics::bound
//   ibr              those from `protect`: as     keeps what lived, or       what lived then
//                    many as one likes            waited, at its last read
//   hyaline          as ibr                       keeps what was born by     what was born then
//                                                 its last read
//
// ping_epochs follows EpochPOP [Singh25] with membarrier(2) as the ping: slots are written without
// a fence. While all threads move, epochs free, and no thread reads a slot. A thread begins to scan
// when its bag holds one batch. At one and a half batches it looks at all threads at once; if one
// is still in an older epoch, it reads all slots, after a fence that makes them visible.
//
// Under checkpoints a guard is as under debra until its thread calls `guard::checkpoint`. If
// another thread has begun the next epoch, that call ends the guard's section and begins one in the
// new epoch; what the thread passes to it stays valid in slots. Each operation of a structure calls
// it as it begins, and walks of list_set, hash_map and skip_list meanwhile, if they may
// (`guard::allow_checkpoints`); in operations that pin by themselves they may. So a walk of any
// length holds the epoch for 64 nodes, and those behind that are removed. A thread that stops holds
// the epoch, as under debra. There are no signals, and no fence but a pin's.
//
// Under qsbr a pin announces nothing, and a thread that is attached may hold pointers until it
// calls `handle::quiescent` (or `domain::quiescent`), is in an offline_scope, waits in
// `synchronize` or `barrier`, or leaves. Objects are freed in `quiescent`. So every thread that is
// attached has to report now and then, as an event loop does after each event; else nothing is
// freed, and options::on_stall names the thread. Scans use no membarrier(2).
//
// Under ibr `protect` costs two loads and a comparison; the slot has no meaning. Objects that are
// retired should have the base `born` (born.hpp), as the nodes of our structures have: one without
// is kept by every reader that was pinned when it was retired, as under DEBRA, however long it
// stalls. A thread looks at all reservations when it holds a batch, and when what was left has
// grown by half.
//
// Under hyaline births and `protect` are as under ibr. A thread that retired a batch sends it to
// all threads that are pinned and may hold some of it; nobody looks again. A pin costs a store, an
// unpin an exchange; both are the thread's own words unless a batch comes. A reader frees as its
// policy says, at its next pin, what it let go of last; if it makes none, another thread takes that
// over.
//
// Each is a type for `domain`; its functions are the fast paths, called by guard and handle.
// `retire` returns false if there is no memory to note the object.
// Thread-safety: there is no state here.
#pragma once

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "nearmalloc/reclaim/impl/protection.hpp"

namespace near::reclaim {

// DEBRA: when a thread frees a batch. before_free: inside the epoch that it just announced, so that
// the epoch can change only once meanwhile, as the thesis says (§3.2). after_free: still quiescent,
// as the published code does.
enum class announce : uint8_t { before_free, after_free };

// Token EBR: when a thread that received the token passes it on (Kim23 §3.4: naive, pass-first,
// periodic with a look at every 100 frees).
enum class pass : uint8_t { after_free, before_free, while_freeing };

namespace impl {

// What `retire` does under every scheme except leaky. False: there is no memory for the object.
// `life`: under schemes that need it.
inline bool push(Record& record, void* object, deleter destroy, size_t bytes,
                 const Life* life = nullptr) noexcept {
  if (record.stay.is_inside_library()) [[unlikely]]
    fail_with("a signal handler retires inside a pin, or work of the library");
  record.lock.enter(record.core->asymmetric);
  const bool has_room = record.limbo.try_push(object, destroy, bytes);
  if (life != nullptr && has_room) record.limbo.date_last(*life);
  if (record.limbo.current() >= record.core->settings.batch_size) record.due = true;
  const bool is_in_debt = record.limbo.credit < 0;
  record.lock.leave();
  if (is_in_debt) [[unlikely]]
    pay_debt(record);
  return has_room;
}

// The same for schemes with slots or reservations, which a thread reads when it has retired enough.
inline bool retire_with_looks(Record& record, void* object, deleter destroy, size_t bytes,
                              const Life* life = nullptr) noexcept {
  const bool has_room = push(record, object, destroy, bytes, life);
  if (record.limbo.current() >= record.look_at) [[unlikely]]
    hazards_retired(record);
  return has_room;
}

// `has_worked`: the work that was due was done before the announcement.
template <bool has_worked>
[[gnu::always_inline]] inline void pin_epoch(Record& record) noexcept {
  Core& core = *record.core;
  record.stay.begin();
  const bool current = announce_seen(core.clock, record.epoch, core.asymmetric);
  if (current) [[likely]] {
    record.stay.settle();
    // A handler that ran before `settle` has set both.
    if (!(has_worked ? record.interrupted : record.due)) [[likely]]
      return;
  }
  epochs_pinned(record, current);
}

// Whether objects should note when they are made.
template <class Scheme>
inline constexpr bool needs_births = has_eras(Scheme::traits.scheme);

// Whether guards may have more than one section.
template <class Scheme>
inline constexpr bool makes_sections = Scheme::traits.scheme == impl::Scheme::sections;

// Whether threads have to report quiescent states.
template <class Scheme>
concept HasReports = requires(Record& record) { Scheme::report(record); };

// The two halves of a guard.
template <class Scheme>
[[gnu::always_inline]] inline void begin_guard(Record& record) noexcept {
  check_use(record);
  if (record.stay.is_outside()) [[likely]] {
    Scheme::enter(record);
  } else {
    Scheme::nest(record);
  }
}

template <class Scheme>
[[gnu::always_inline]] inline void end_guard(Record& record) noexcept {
  if (record.stay.has_one_guard()) [[likely]] {
    record.stay.end();
    Scheme::leave(record);
  } else {
    leave_nested(record);
  }
}

// One operation that does nothing; under QSBR, a report.
template <class Scheme>
void visit(Record& record) noexcept {
  if constexpr (HasReports<Scheme>) {
    Scheme::report(record);
  } else {
    begin_guard<Scheme>(record);
    end_guard<Scheme>(record);
  }
}

}  // namespace impl

struct leaky : impl::ProtectsAll {
  static constexpr impl::Traits traits{impl::Scheme::leaky};
  static constexpr bool has_grace_periods = false;
  static void enter(impl::Record& record) noexcept { record.stay.settle(); }
  static void leave(impl::Record&) noexcept {}
  static bool retire(impl::Record& record, void*, deleter, size_t) noexcept {
    record.limbo.leak();
    return true;
  }
};

template <announce Order = announce::before_free>
struct debra : impl::ProtectsAll {
  static constexpr impl::Traits traits{.scheme = impl::Scheme::epochs,
                                       .frees_quiescent = Order == announce::after_free};
  static constexpr bool has_grace_periods = true;

  static void enter(impl::Record& record) noexcept {
    if constexpr (Order == announce::before_free) {
      impl::pin_epoch<false>(record);
    } else {
      // relaxed: a hint; what is announced is checked below
      const bool is_new = record.core->clock.epoch.load(kRelaxed) != record.epoch.seen;
      if (is_new || record.due) [[unlikely]]
        impl::epochs_before_pin(record);
      impl::pin_epoch<true>(record);
    }
  }
  static void leave(impl::Record& record) noexcept { impl::unannounce(record.epoch); }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::push(record, object, destroy, bytes);
  }
};

struct checkpoints : impl::ProtectsSections {
  static constexpr impl::Traits traits{impl::Scheme::sections};
  static constexpr bool has_grace_periods = true;

  static void enter(impl::Record& record) noexcept { impl::pin_epoch<false>(record); }
  static void leave(impl::Record& record) noexcept { impl::unannounce(record.epoch); }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::push(record, object, destroy, bytes);
  }
};

struct qsbr : impl::ProtectsAll {
  static constexpr impl::Traits traits{impl::Scheme::quiescence};
  static constexpr bool has_grace_periods = true;
  static void enter(impl::Record& record) noexcept { record.stay.settle(); }
  static void leave(impl::Record&) noexcept {}
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::push(record, object, destroy, bytes);
  }
  static void report(impl::Record& record) noexcept {
    // relaxed: a hint; a report acquires the epoch
    const bool is_new = record.core->clock.epoch.load(kRelaxed) != record.epoch.seen;
    if (is_new || record.due || !record.stay.is_outside()) [[unlikely]]
      impl::report_slow(record);
  }
};

template <pass When = pass::before_free>
struct token : impl::ProtectsAll {
  static constexpr impl::Traits traits{
      .scheme = impl::Scheme::token,
      .pass = When == pass::after_free    ? impl::TokenPass::after_free
              : When == pass::before_free ? impl::TokenPass::before_free
                                          : impl::TokenPass::while_freeing};
  static constexpr bool has_grace_periods = true;

  static void enter(impl::Record& record) noexcept {
    // There is no second step that a handler could disturb: settle at once, then announce.
    record.stay.settle();
    impl::activate(record.token, record.core->asymmetric);
    if (--record.token.countdown == 0) [[unlikely]]
      impl::work(record);
  }
  static void leave(impl::Record& record) noexcept { impl::deactivate(record.token); }
  static void nest(impl::Record& record) noexcept {
    impl::nest(record, impl::is_activated(record.token));
  }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::push(record, object, destroy, bytes);
  }
};

struct hazard_pointers : impl::ProtectsSlots {
  static constexpr impl::Traits traits{impl::Scheme::hazards};
  static constexpr bool has_grace_periods = false;
  static void enter(impl::Record& record) noexcept {
    record.stay.settle();
    if (record.due) [[unlikely]]
      impl::work(record);
  }
  static void leave(impl::Record&) noexcept {}
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::retire_with_looks(record, object, destroy, bytes);
  }
};

struct ping_epochs : impl::ProtectsSlots {
  static constexpr impl::Traits traits{impl::Scheme::ping};
  static constexpr bool has_grace_periods = true;
  static void enter(impl::Record& record) noexcept { impl::pin_epoch<false>(record); }
  static void leave(impl::Record& record) noexcept { impl::unannounce(record.epoch); }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes) noexcept {
    return impl::retire_with_looks(record, object, destroy, bytes);
  }
};

struct ibr {
  static constexpr impl::Traits traits{impl::Scheme::intervals};
  static constexpr bool protects_all = false;
  static constexpr bool has_grace_periods = false;

  using Slots = impl::EraSlots;

  static void enter(impl::Record& record) noexcept {
    if (record.due) [[unlikely]]
      impl::intervals_before_pin(record);
    record.stay.begin();
    impl::reserve(impl::eras, record.interval, record.core->asymmetric);
    record.stay.settle();
  }
  static void leave(impl::Record& record) noexcept { impl::end_reservation(record.interval); }
  static void nest(impl::Record& record) noexcept { impl::nest(record, true); }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes,
                     uint64_t birth = 0) noexcept {
    const impl::Life life{birth, impl::read_end(impl::eras, record.core->asymmetric)};
    return impl::retire_with_looks(record, object, destroy, bytes, &life);
  }
};

struct hyaline {
  static constexpr impl::Traits traits{impl::Scheme::batches};
  static constexpr bool protects_all = false;
  static constexpr bool has_grace_periods = false;
  using Slots = impl::EraSlots;

  static void enter(impl::Record& record) noexcept {
    if (record.due) [[unlikely]]
      impl::batches_before_pin(record);
    record.stay.begin();
    if (record.lists.is_own_open()) [[unlikely]]
      impl::batches_left_open(record);
    const uint64_t era = impl::read_birth(impl::eras);
    impl::open_list(era, record.interval, record.lists.own, record.core->asymmetric);
    record.stay.settle();
  }
  static void leave(impl::Record& record) noexcept {
    impl::BatchNode* const list = impl::close_list(record.lists.own);
    if (impl::has_batch(list)) [[unlikely]]
      impl::batches_let_go(record, list);
    if (record.interrupted) [[unlikely]]
      impl::let_go(record);
  }
  static void nest(impl::Record& record) noexcept { impl::nest(record, true); }
  static bool retire(impl::Record& record, void* object, deleter destroy, size_t bytes,
                     uint64_t birth = 0) noexcept {
    const impl::Life life{birth, 0};  // its end has no meaning
    return impl::retire_with_looks(record, object, destroy, bytes, &life);
  }
};

}  // namespace near::reclaim
