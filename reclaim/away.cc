#include "reclaim/away.h"

#include "reclaim/inside.h"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

// Calls f for each record of the calling thread, except `me`.
template <class F>
void for_each_other(const Core& core, const Record& me, F f) noexcept {
  const int32_t mine = own_thread();
  // pairs: records
  for (Record* record = core.records.load(kAcquire); record != nullptr; record = record->next) {
    // relaxed: this thread's own, or not equal
    const bool is_own = record->attached.load(kRelaxed) == kAttached &&
                        record->thread.load(kRelaxed) == mine;  // relaxed: the same
    if (is_own && record != &me) f(*record);
  }
}

bool has_effect(const Core& core) noexcept { return core.traits.scheme == Scheme::quiescence; }

}  // namespace

Away::Away(const Core& core, Record& me) noexcept : core_(core), me_(me) {
  if (!has_effect(core)) return;
  before_ = me.stay.enter_library();
  go_away(me);
  for_each_other(core, me, [](Record& record) {
    record.stay.begin();
    go_away(record);
  });
}

Away::~Away() {
  if (!has_effect(core_)) return;
  for_each_other(core_, me_, [](Record& record) {
    come_back(record);
    record.stay.end();
  });
  come_back(me_);
  me_.stay.restore(before_);
}

void Away::let_go_all(const Core& core, Record& me) noexcept {
  let_go(me);
  if (has_effect(core)) for_each_other(core, me, let_go);
}

}  // namespace near::reclaim::impl
