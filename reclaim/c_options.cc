// The options of a domain, as C gives them: nearmalloc/reclaim.h.
// Thread-safety: as c_options.h says.
#include "reclaim/c_options.h"

#include "nearmalloc/reclaim/timeline.hpp"

namespace near::reclaim::impl {
namespace {

// False: there is no such policy.
bool set_policy(int type, policy& to) {
  switch (type) {
    case NEAR_RECLAIM_ADAPTIVE:
      to.type = policy::kind::adaptive;
      return true;
    case NEAR_RECLAIM_BATCH:
      to.type = policy::kind::batch;
      return true;
    case NEAR_RECLAIM_AMORTIZED:
      to.type = policy::kind::amortized;
      return true;
    case NEAR_RECLAIM_BUDGET:
      to.type = policy::kind::budget;
      return true;
    case NEAR_RECLAIM_MANUAL:
      to.type = policy::kind::manual;
      return true;
    default:
      return false;
  }
}

// C has no noexcept: the program's functions must not throw.
limbo_memory memory_of(const near_reclaim_options& chosen) {
  if (chosen.allocate == nullptr) return {};
  return {reinterpret_cast<decltype(limbo_memory::allocate)>(chosen.allocate),
          reinterpret_cast<decltype(limbo_memory::deallocate)>(chosen.deallocate),
          chosen.memory_context};
}

void tell(const stall& found, void* listener) noexcept {
  const auto& to = *static_cast<const StallListener*>(listener);
  const near_reclaim_stall told{found.thread, found.record, found.epoch, found.milliseconds};
  to.function(&told, to.context);
}

bool is_in_range(const near_reclaim_options& chosen) {
  return chosen.objects > 0 && chosen.operations_between_checks > 0 &&
         chosen.records_per_check > 0 &&
         (chosen.allocate == nullptr) == (chosen.deallocate == nullptr) &&
         (chosen.when_full == NEAR_RECLAIM_HELP || chosen.when_full == NEAR_RECLAIM_BLOCK);
}

}  // namespace

std::optional<options> options_of(const near_reclaim_options& chosen) noexcept {
  options settings;
  const uint32_t usual = chosen.policy == NEAR_RECLAIM_ADAPTIVE ? settings.reclaim.every : 1;
  const uint32_t every = chosen.every != 0 ? chosen.every : usual;
  settings.reclaim = {settings.reclaim.type, chosen.objects, every, chosen.nanoseconds};
  if (!is_in_range(chosen) || !set_policy(chosen.policy, settings.reclaim)) return std::nullopt;
  settings.batch_size = chosen.batch_size;
  settings.max_unreclaimed_bytes = chosen.max_unreclaimed_bytes;
  settings.when_full = chosen.when_full == NEAR_RECLAIM_BLOCK ? at_limit::block : at_limit::help;
  settings.operations_between_checks = chosen.operations_between_checks;
  settings.records_per_check = chosen.records_per_check;
  settings.skip_idle = chosen.skip_idle != 0;
  settings.asymmetric = chosen.asymmetric != 0;
  settings.hand_over_runs = chosen.hand_over_runs != 0;
  settings.measure_time = chosen.measure_time != 0;
  settings.stall_ms = chosen.stall_ms;
  settings.memory = memory_of(chosen);
  settings.record_to = reinterpret_cast<timeline*>(chosen.record_to);
  return settings;
}

options StallListener::listening(options settings) const noexcept {
  if (function == nullptr) return settings;
  settings.on_stall = tell;
  settings.context = const_cast<StallListener*>(this);
  return settings;
}

}  // namespace near::reclaim::impl

near_reclaim_options near_reclaim_defaults() {
  const near::reclaim::options usual;
  near_reclaim_options chosen{};
  chosen.scheme = NEAR_RECLAIM_DEBRA;
  chosen.policy = NEAR_RECLAIM_ADAPTIVE;
  chosen.objects = usual.reclaim.objects;
  chosen.batch_size = usual.batch_size;
  chosen.max_unreclaimed_bytes = usual.max_unreclaimed_bytes;
  chosen.when_full = NEAR_RECLAIM_HELP;
  chosen.operations_between_checks = usual.operations_between_checks;
  chosen.records_per_check = usual.records_per_check;
  chosen.skip_idle = usual.skip_idle ? 1 : 0;
  chosen.asymmetric = usual.asymmetric ? 1 : 0;
  chosen.hand_over_runs = usual.hand_over_runs ? 1 : 0;
  chosen.measure_time = usual.measure_time ? 1 : 0;
  chosen.stall_ms = usual.stall_ms;
  return chosen;
}
