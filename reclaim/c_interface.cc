// The C interface: nearmalloc/reclaim.h. The scheme is a value there, so each domain has a table of
// its scheme's functions.
// Thread-safety: as the header says.
#include <cerrno>
#include <cstdlib>
#include <new>
#include <optional>

#include "nearmalloc/reclaim.h"
#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/background.hpp"
#include "nearmalloc/reclaim/impl/free_run.hpp"
#include "nearmalloc/reclaim/impl/this_thread.hpp"
#include "nearmalloc/reclaim/schemes.hpp"
#include "reclaim/c_options.h"

using namespace near::reclaim;        // NOLINT: the names below are C's
using namespace near::reclaim::impl;  // NOLINT

namespace {

// What a guard protects: everything; everything in a section, and what slots hold from one to the
// next; what its slots hold; or what lived in the eras it reserved.
enum class Protects : uint8_t { all, sections, slots, eras };
constexpr bool needs_no_slot(Protects protects) {
  return protects == Protects::all || protects == Protects::sections;
}

struct Functions {
  Traits traits;
  bool has_grace_periods;
  Protects protects;
  void (*begin)(Record&) noexcept;
  void (*end)(Record&) noexcept;
  bool (*retire)(Record&, void*, deleter, size_t, uint64_t birth) noexcept;
  Visit visit;
  void (*report)(Record&) noexcept;  // null: the scheme has no reports
};

template <class Scheme>
void begin(Record& record) noexcept {
  begin_guard<Scheme>(record);
}
template <class Scheme>
void end(Record& record) noexcept {
  end_guard<Scheme>(record);
}
template <class Scheme>
bool retire(Record& record, void* object, deleter destroy, size_t bytes,
            [[maybe_unused]] uint64_t birth) noexcept {
  if constexpr (needs_births<Scheme>) {
    return Scheme::retire(record, object, destroy, bytes, birth);
  } else {
    return Scheme::retire(record, object, destroy, bytes);
  }
}

template <class Scheme>
constexpr Protects protects_of() {
  if (makes_sections<Scheme>) return Protects::sections;
  if (Scheme::protects_all) return Protects::all;
  return needs_births<Scheme> ? Protects::eras : Protects::slots;
}

template <class Scheme>
constexpr auto report_of() -> void (*)(Record&) noexcept {
  if constexpr (HasReports<Scheme>) {
    return Scheme::report;
  } else {
    return nullptr;
  }
}

template <class Scheme>
constexpr Functions kFunctions{Scheme::traits,        Scheme::has_grace_periods,
                               protects_of<Scheme>(), begin<Scheme>,
                               end<Scheme>,           retire<Scheme>,
                               visit<Scheme>,         report_of<Scheme>()};

// Null: there is no such scheme.
const Functions* functions_of(int scheme) {
  switch (scheme) {
    case NEAR_RECLAIM_DEBRA:
      return &kFunctions<debra<>>;
    case NEAR_RECLAIM_TOKEN:
      return &kFunctions<token<>>;
    case NEAR_RECLAIM_HAZARD_POINTERS:
      return &kFunctions<hazard_pointers>;
    case NEAR_RECLAIM_PING_EPOCHS:
      return &kFunctions<ping_epochs>;
    case NEAR_RECLAIM_QSBR:
      return &kFunctions<qsbr>;
    case NEAR_RECLAIM_IBR:
      return &kFunctions<ibr>;
    case NEAR_RECLAIM_HYALINE:
      return &kFunctions<hyaline>;
    case NEAR_RECLAIM_CHECKPOINTS:
      return &kFunctions<checkpoints>;
    case NEAR_RECLAIM_LEAKY:
      return &kFunctions<leaky>;
    default:
      return nullptr;
  }
}

void free_object(void* object) noexcept { std::free(object); }

// Null unless malloc is nearmalloc's.
decltype(FreeRun::many) batch_of_malloc() {
  if (&near_free_batch == nullptr || &near_malloc_usable_size == nullptr) return nullptr;
  void* volatile block = std::malloc(1);
  const bool is_ours = block != nullptr && near_malloc_usable_size(block) > 0;
  std::free(block);
  return is_ours ? near_free_batch : nullptr;
}

// C has no noexcept; a destroy function must not throw.
deleter deleter_for(void (*destroy)(void*)) {
  return destroy == nullptr ? free_object : reinterpret_cast<deleter>(destroy);
}

Record& record_of(const near_reclaim_guard* guard) { return *static_cast<Record*>(guard->record); }

SlotRow row_of(const near_reclaim_guard* guard) {
  return {guard->slots[0], guard->slots[1], guard->slots[2]};
}

// Under ibr and hyaline, the guard notes the era of its last `hold` where it has slots elsewhere.
void keep_era(near_reclaim_guard* guard, uint64_t era) {
  guard->slots[0] = static_cast<uint32_t>(era);
  guard->slots[1] = static_cast<uint32_t>(era >> 32);
}
uint64_t era_of(const near_reclaim_guard* guard) {
  return guard->slots[0] | uint64_t{guard->slots[1]} << 32;
}

void keep_row(near_reclaim_guard* guard, const SlotRow& row) {
  guard->slots[0] = row.bit;
  guard->slots[1] = row.first;
  guard->slots[2] = row.size;
}

}  // namespace

struct near_reclaim_domain {
  near_reclaim_domain(const Functions& its_functions, options settings,
                      const near_reclaim_options& chosen)
      : functions(its_functions),
        listener{chosen.on_stall, chosen.context},
        core(listener.listening(settings), its_functions.traits,
             FreeRun{free_object, settings.hand_over_runs ? batch_of_malloc() : nullptr}) {}

  const Functions& functions;
  const StallListener listener;
  Core core;
  Background background;
};

near_reclaim_domain* near_reclaim_create(const near_reclaim_options* chosen) {
  const Functions* functions = functions_of(chosen->scheme);
  const std::optional<options> settings = options_of(*chosen);
  if (functions == nullptr || !settings) {
    errno = EINVAL;
    return nullptr;
  }
  void* room = nullptr;
  const int failure =
      posix_memalign(&room, alignof(near_reclaim_domain), sizeof(near_reclaim_domain));
  if (failure != 0) {
    errno = failure;
    return nullptr;
  }
  return new (room) near_reclaim_domain(*functions, *settings, *chosen);
}

void near_reclaim_destroy(near_reclaim_domain* domain) {
  domain->background.stop();
  domain->~near_reclaim_domain();
  std::free(domain);
}

int near_reclaim_pin(near_reclaim_domain* domain, near_reclaim_guard* guard) {
  Record* record = own_record(domain->core);
  if (record == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  *guard = {domain, record, {0, 0, 0}, 0};
  domain->functions.begin(*record);
  return 0;
}

static void give_back_slots(const near_reclaim_guard* guard) {
  const Protects protects = guard->domain->functions.protects;
  if (protects != Protects::slots && protects != Protects::sections) return;
  SlotRow row = row_of(guard);
  record_of(guard).hazards.give_back(row);
}

void near_reclaim_unpin(near_reclaim_guard* guard) {
  give_back_slots(guard);
  guard->domain->functions.end(record_of(guard));
}

void near_reclaim_pin_in_handler(near_reclaim_domain* domain, near_reclaim_guard* guard) {
  Record& record = domain->core.in_handler();
  *guard = {domain, &record, {0, 0, 0}, 0};
  guard->was_outside = enter_in_handler(record) ? 1 : 0;
}

void near_reclaim_unpin_in_handler(near_reclaim_guard* guard) {
  give_back_slots(guard);
  leave_in_handler(record_of(guard), guard->was_outside != 0);
}

void* near_reclaim_protect(near_reclaim_guard* guard, unsigned slot, const void* source) {
  const auto& pointer = *static_cast<const near::Atomic<void*>*>(source);
  const Protects protects = guard->domain->functions.protects;
  if (needs_no_slot(protects)) return pointer.load(near::kAcquire);  // pairs: program
  Record& record = record_of(guard);
  check_use(record);
  if (protects == Protects::eras) {
    return protect_by_era(eras, record.interval, pointer, record.core->asymmetric);
  }
  SlotRow row = row_of(guard);
  void* object = record.hazards.protect(row, slot, pointer, record.core->asymmetric);
  keep_row(guard, row);
  return object;
}

void near_reclaim_hold(near_reclaim_guard* guard, unsigned slot, const void* object) {
  const Protects protects = guard->domain->functions.protects;
  if (needs_no_slot(protects)) return;
  Record& record = record_of(guard);
  if (protects == Protects::eras) {
    return keep_era(guard, extend(eras, record.interval, record.core->asymmetric));
  }
  SlotRow row = row_of(guard);
  record.hazards.hold(row, slot, object, record.core->asymmetric);
  keep_row(guard, row);
}

int near_reclaim_still_holds(const near_reclaim_guard* guard) {
  if (guard->domain->functions.protects != Protects::eras) return 1;
  return is_still(eras, era_of(guard)) ? 1 : 0;
}

int near_reclaim_checkpoint(near_reclaim_guard* guard, const void* const* held, unsigned count) {
  if (guard->domain->functions.protects != Protects::sections) return 0;
  Record& record = record_of(guard);
  check_use(record);
  checkpoints::Slots slots;
  slots.row = row_of(guard);
  slots.allows_checkpoints = true;
  if (!slots.may_begin_section(record)) return 0;
  slots.publish(record, {held, count});
  keep_row(guard, slots.row);
  begin_section(record);
  return 1;
}

uint64_t near_reclaim_birth() { return read_birth(eras); }

void near_reclaim_retire(near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                         size_t bytes) {
  near_reclaim_retire_born(guard, object, destroy, bytes, 0);
}

void near_reclaim_retire_born(near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                              size_t bytes, uint64_t birth) {
  Record& record = record_of(guard);
  check_use(record);
  const Functions& functions = guard->domain->functions;
  if (!functions.retire(record, object, deleter_for(destroy), bytes, birth)) lose(record);
}

int near_reclaim_try_retire(near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                            size_t bytes) {
  return near_reclaim_try_retire_born(guard, object, destroy, bytes, 0);
}

int near_reclaim_try_retire_born(near_reclaim_guard* guard, void* object, void (*destroy)(void*),
                                 size_t bytes, uint64_t birth) {
  const Promise promise(record_of(guard), bytes);
  if (!promise) {
    errno = EAGAIN;
    return -1;
  }
  near_reclaim_retire_born(guard, object, destroy, bytes, birth);
  return 0;
}

int near_reclaim_synchronize(near_reclaim_domain* domain) {
  if (!domain->functions.has_grace_periods) {
    errno = ENOTSUP;
    return -1;
  }
  domain->core.synchronize();
  return 0;
}

void near_reclaim_barrier(near_reclaim_domain* domain) { domain->core.barrier(); }

size_t near_reclaim_free_some(near_reclaim_domain* domain, size_t most) {
  Record* record = own_record_if_any(domain->core);
  return record != nullptr ? free_by_hand(*record, most) : 0;
}

int near_reclaim_start_background(near_reclaim_domain* domain) {
  const int failure = domain->background.start(domain->core, domain->functions.visit);
  if (failure == 0) return 0;
  errno = failure;
  return -1;
}

void near_reclaim_stop_background(near_reclaim_domain* domain) { domain->background.stop(); }

size_t near_reclaim_all(near_reclaim_domain* domain) {
  return domain->core.reclaim_all_once(domain->functions.visit);
}

void near_reclaim_quiescent(near_reclaim_domain* domain) {
  if (domain->functions.report == nullptr) return;
  Record* record = own_record_if_any(domain->core);
  if (record != nullptr) domain->functions.report(*record);
}

int near_reclaim_go_offline(near_reclaim_domain* domain) {
  Record* record = own_record(domain->core);
  if (record == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  domain->core.go_offline(*record);
  return 0;
}

void near_reclaim_come_online(near_reclaim_domain* domain) {
  Record* record = own_record_if_any(domain->core);
  if (record != nullptr && record->is_offline) domain->core.come_online(*record);
}

void near_reclaim_collect(const near_reclaim_domain* domain, near_reclaim_statistics* sums) {
  const statistics all = domain->core.collect();
  *sums = {all.retired,
           all.freed,
           all.lost,
           all.unreclaimed,
           all.unreclaimed_bytes,
           all.over_limit,
           all.bound,
           all.epochs,
           all.stalls,
           all.threads,
           all.peak_unreclaimed,
           all.longest_run,
           all.freeing_ns,
           all.heavy_fences,
           all.looks};
}
