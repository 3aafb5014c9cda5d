// Guards of signal handlers: how each scheme implements nearmalloc/reclaim/impl/stay.hpp.
// Thread-safety: only the record's owner, in a handler or after it.
#include "nearmalloc/reclaim/impl/stay.hpp"

#include "nearmalloc/reclaim/born.hpp"
#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

void announce_in_handler(Record& record) noexcept {
  Core& core = *record.core;
  // relaxed: the thread's own
  if (record.is_offline || record.attached.load(kRelaxed) != kAttached) {
    fail_with("a thread pins or retires inside its offline_scope");
  }
  switch (core.traits.scheme) {
    case Scheme::epochs:
    case Scheme::sections:
    case Scheme::ping:
      announce_newest(core.clock, record.epoch, core.asymmetric);
      break;
    case Scheme::quiescence:
      if (record.is_present) return;  // its announcement protects the handler, too
      announce_newest(core.clock, record.epoch, core.has_asymmetric_fences());
      break;
    case Scheme::token:
      activate(record.token, core.asymmetric);
      break;
    case Scheme::intervals:
      reserve(eras, record.interval, core.asymmetric);
      break;
    case Scheme::batches:
      keep_open(read_birth(eras), record.interval, record.lists.handlers, core.asymmetric);
      break;
    case Scheme::leaky:
    case Scheme::hazards:
      break;
  }
  record.interrupted = true;
  record.due = true;  // the interrupted pin tests this
}

}  // namespace

void pin_unsettled(Record& record) noexcept {
  const bool is_begun = !record.stay.is_unsettled();  // under Token EBR: not yet announced
  if (is_begun || record.stay.guards() == 0) announce_in_handler(record);
  record.stay.add_guard();
}

bool enter_in_handler(Record& record) noexcept {
  const bool was_outside = record.stay.is_outside();
  if (was_outside) record.stay.begin();
  const bool is_token = record.core->traits.scheme == Scheme::token;
  if (record.stay.is_unsettled() || (is_token && !is_activated(record.token))) {
    pin_unsettled(record);
  } else {
    record.stay.add_guard();
  }
  return was_outside;
}

void leave_in_handler(Record& record, bool was_outside) noexcept {
  record.stay.remove_guard();
  if (!was_outside) return;
  record.stay.end();
  let_go(record);
}

void let_go(Record& record) noexcept {
  if (!record.interrupted) return;
  record.interrupted = false;
  unannounce(record.epoch);
  deactivate(record.token);
  end_reservation(record.interval);
  drop_aside(*record.core, close_list(record.lists.handlers));
}

}  // namespace near::reclaim::impl
