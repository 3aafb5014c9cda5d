#include "reclaim/away.h"

#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// Calls f for each record of the calling thread, except `me`.
template <class F>
void for_each_other(const Core& core, const Record& me, F f) noexcept {
  for_each_own(core, [&](Record& record) {
    if (&record != &me) f(record);
  });
}

void leave(Record& record) noexcept {
  record.stay.begin();
  go_away(record);
}

// Requires that the record is held.
void return_if_away(Record& record) noexcept {
  if (record.is_present || record.is_offline) return;
  come_back(record);
  record.stay.end();
}

}  // namespace

Away::Away(const Core& core, Record& me) noexcept : core_(core), me_(me) {
  if (!core.has_reports()) return;
  before_ = me.stay.enter_library();
  go_away(me);
  for_each_other(core, me, leave);
}

Away::~Away() {
  if (!core_.has_reports()) return;
  for_each_other(core_, me_, return_if_away);
  come_back(me_);
  me_.stay.restore(before_);
}

void Away::let_go_all(const Core& core, Record& me) noexcept {
  let_go(me);
  if (core.has_reports()) for_each_other(core, me, let_go);
}

// The thread that gave the record away may be waiting, and have taken it away.
void adopt(Record& record) noexcept {
  const int32_t mine = own_thread();
  record.owner.adopt(mine);
  if (record.core->has_reports()) return_if_away(record);
  record.user = this_user();
  record.owner.release(mine);
}

}  // namespace near::reclaim::impl
