#include "node/keeping.h"

#include "base/bits.h"
#include "node/purge_signal.h"
#include "platform/clock.h"
#include "platform/options.h"

namespace near {
namespace {

constexpr size_t kLearnedMin = 128 * kKiB >> kSliceShift;
constexpr size_t kLikes = 8;         // a large block, or memory needed again, counts this often
constexpr uint32_t kDecaySteps = 8;  // decay runs this often in each decay_ms
constexpr size_t kLookEvery = 4;     // least number of slices freed between two looks

uint32_t decay_ms() { return static_cast<uint32_t>(option(Option::decay_ms)); }

}  // namespace

size_t Keeping::look(uint64_t now_ms, size_t live, size_t bound) {
  bound_ = bound;
  follow_peak(now_ms, live);
  unlooked_ = 0;
  const size_t slices = limit() + kept_;
  look_every_ = max_of(kLookEvery, slices / 8);
  return slices;
}

// The limit with a purge thread: 1.5 times the recent peak of live memory, or `dirty_mib` if that
// is more. Blocks that come and go then find memory that is still resident.
size_t Keeping::most() const { return max_of(bound_, peak_ + peak_ / 2); }

size_t Keeping::limit() const {
  return purge_signal.present() ? most() : min_of(most(), max_of(learned_, kLearnedMin));
}

// Makes the peak follow live memory: it rises at once and falls by a quarter in each decay time.
// The learned limit falls likewise.
void Keeping::follow_peak(uint64_t now_ms, size_t live) {
  if (is_old(now_ms, peak_ms_, decay_ms())) {
    peak_ms_ = now_ms;
    peak_ -= peak_ / 4;
    learned_ -= learned_ / 4;
  }
  peak_ = max_of(peak_, live + unlooked_);
}

void Keeping::expect_another(size_t slices, size_t bound) {
  const size_t room = min_of(kLikes * slices, max_of(2 * slices, peak_ / 4));
  learned_ = max_of(learned_, min_of(room, 2 * bound));
}

// Memory that is not needed again within half a decay time was rightly given back: clears the
// credit.
void Keeping::forget_credit(uint64_t now_ms) {
  if (is_old(now_ms, credit_ms_, decay_ms() / 2)) credit_ = 0;
}

// When regret reaches a quarter of the limit, the limit rises.
void Keeping::record_regret(uint32_t slices) {
  forget_credit(coarse_now_ms());
  const size_t regret = min_of(slices, credit_);
  credit_ -= regret;
  regret_ += regret;
  const size_t limit = max_of(learned_, kLearnedMin);
  if (regret_ * 4 < limit) return;
  learned_ = min_of(limit + kLikes * regret_, most());
  regret_ = 0;
}

void Keeping::count_purged(uint64_t now_ms, size_t slices) {
  forget_credit(now_ms);
  credit_ += slices;
  credit_ms_ = now_ms;
}

bool Keeping::should_decay(uint64_t now_ms) {
  if (purge_signal.present() || !is_old(now_ms, last_decay_ms_, decay_ms() / kDecaySteps)) {
    return false;
  }
  last_decay_ms_ = now_ms;
  return true;
}

}  // namespace near
