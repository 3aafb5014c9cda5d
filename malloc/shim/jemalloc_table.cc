// The rows. Each value is true of this allocator; an unknown value has no row, so ENOENT answers.
// Invariant: rows with the same first parts are neighbours (Search in shim/jemalloc_names.cc).
// Thread-safety: any thread, without locks held.
#include <cerrno>

#include "base/bits.h"
#include "front/front.h"
#include "front/profile.h"
#include "node/memory.h"
#include "platform/options.h"
#include "platform/os.h"
#include "profile/profiler.h"
#include "shim/jemalloc_names.h"
#include "shim/jemalloc_numbers.h"
#include "shim/version.h"

namespace near::jemalloc {
namespace {

uint64_t word_of(const char* text) { return reinterpret_cast<uint64_t>(text); }

template <uint64_t kValue>
Answer always(const Call&) {
  return {kValue};
}

template <const auto& kText>
Answer text(const Call&) {
  return {word_of(kText)};
}
constexpr char kVersion[] = "5.3.0-nearmalloc-" NEAR_VERSION_TEXT;
constexpr char kEmpty[] = "";
constexpr char kDisabled[] = "disabled";
constexpr char kDefault[] = "default";
constexpr char kNever[] = "never";
constexpr char kFalse[] = "false";
constexpr char kFree[] = "free";

template <Option kOption>
Answer option_value(const Call&) {
  return {static_cast<uint64_t>(option(kOption))};
}
template <Option kOption>
Answer is_option_on(const Call&) {
  return {option(kOption) != 0};
}

// --- arenas ---

bool has_memory(uint64_t arena) {
  return arena == 0 || arena == kAllArenas || arena == arena_count();
}
uint64_t in_arena(const Call& call, uint64_t value) {
  return has_memory(call.index[0]) ? value : 0;
}

template <Sum... kSums>
Answer bytes(const Call&) {
  return {(sum_of(kSums) + ...)};
}
template <Sum... kSums>
Answer bytes_in(const Call& call) {
  return {in_arena(call, (sum_of(kSums) + ...))};
}
template <Sum kSum>
Answer pages_in(const Call& call) {
  return {in_arena(call, sum_of(kSum) / os::page_size())};
}

Answer regions(const Call& call) {
  return {in_arena(call, live_blocks(static_cast<unsigned>(call.index[1])))};
}
// In units of whole spans: a heap with few blocks has shorter spans.
Answer slabs(const Call& call) {
  const auto size_class = static_cast<unsigned>(call.index[1]);
  return {in_arena(call, div_up(room_of(size_class), kSizeClasses[size_class].capacity))};
}

const SizeClass& bin(const Call& call) { return kSizeClasses[call.index[0]]; }

int purge(uint32_t age_ms) {
  for (unsigned n = 0; n < topology.count; n++) {
    nodes[n].for_each_shard([&](Shard& each) { each.purge(age_ms, 0); });
  }
  return 0;
}
int decay_arena(const Call& call) {
  return has_memory(call.index[0]) ? purge(static_cast<uint32_t>(option(Option::decay_ms))) : 0;
}
int purge_arena(const Call& call) {
  if (has_memory(call.index[0])) reclaim_everything();
  return 0;
}

int set_decay(const Call& call) {
  if (!set_option("decay_ms", static_cast<long>(call.value))) return EFAULT;
  return purge(0);
}
int set_decay_of_arena(const Call& call) {
  return has_memory(call.index[0]) ? set_decay(call) : EFAULT;
}

Answer create_arena(const Call&) {
  const unsigned number = made_arenas.take();
  return {number + 1, number == NumberSet::kMost ? EAGAIN : 0};
}
int destroy_arena(const Call& call) {
  const uint64_t index = call.index[0];
  return index != 0 && made_arenas.give_back(index - 1) ? 0 : EFAULT;
}
Answer is_initialised(const Call& call) {
  return {is_arena(call.index[0]) || call.index[0] == kAllArenas};
}
Answer find_arena(const Call& call) {
  const bool is_ours = span_of(reinterpret_cast<const void*>(call.value)) != nullptr;
  return {0, is_ours ? 0 : EINVAL};
}

// --- threads and their caches ---

int set_arena_of_thread(const Call& call) {
  if (call.value == 0) return 0;
  return is_arena(call.value) ? EPERM : EFAULT;
}
int flush_own(const Call&) {
  flush_own_heap();
  return 0;
}
Answer create_cache(const Call&) {
  const unsigned number = made_caches.take();
  return {number, number == NumberSet::kMost ? EAGAIN : 0};
}
int flush_cache(const Call& call) {
  return call.has_value && made_caches.has(call.value) ? 0 : EINVAL;
}
int destroy_cache(const Call& call) {
  return call.has_value && made_caches.give_back(call.value) ? 0 : EINVAL;
}

// --- the process ---

Answer read_epoch(const Call&) { return {epoch()}; }
int renew(const Call&) {
  refresh();
  return 0;
}
int set_background(const Call& call) {
  return near_set_option("purge_thread", call.value != 0 ? 1 : 0);
}
int set_most_threads(const Call& call) { return call.value == 1 ? 0 : EINVAL; }

// Without muzzy pages, the value has no effect.
constinit Atomic<int64_t> muzzy_decay{0};
Answer read_muzzy(const Call&) {
  return {static_cast<uint64_t>(muzzy_decay.load(kRelaxed))};  // relaxed: a number for the program
}
int set_muzzy(const Call& call) {
  const auto value = static_cast<int64_t>(call.value);
  if (value < -1) return EFAULT;
  muzzy_decay.store(value, kRelaxed);  // relaxed: as above
  return 0;
}

// --- the profiler ---

Answer is_profiling(const Call&) { return {profile::summary().running}; }
Answer sample_rate(const Call&) {
  const profile::Summary now = profile::summary();
  const size_t interval =
      now.any ? now.mean : static_cast<size_t>(option(Option::profile_interval));
  return {log2_floor(interval)};
}
int start(size_t interval) {
  const int error = start_profile(interval);
  return error == 0 || error == EALREADY ? 0 : EFAULT;
}
int set_profiling(const Call& call) {
  if (call.value != 0) return start(0);
  stop_profile();
  return 0;
}
int reset_profile(const Call& call) {
  constexpr uint64_t kMostShift = 29;  // of the longest interval
  if (call.has_value && call.value > kMostShift) return EFAULT;
  const profile::Summary before = profile::summary();
  stop_profile();
  const int error = start(call.has_value ? size_t{1} << call.value : before.mean);
  if (!before.running) stop_profile();
  return error;
}
int dump_profile(const Call& call) {
  const char* path = call.has_value ? reinterpret_cast<const char*>(call.value) : nullptr;
  return write_jeprof_file(path) ? 0 : EFAULT;
}

constexpr Name kNames[] = {
    {"version", Type::text, text<kVersion>, nullptr},
    {"epoch", Type::uint64, read_epoch, renew, Order::write_first},
    {"background_thread", Type::boolean, is_option_on<Option::purge_thread>, set_background},
    {"max_background_threads", Type::size, always<1>, set_most_threads},

    {"config.cache_oblivious", Type::boolean, always<1>, nullptr},
    {"config.debug", Type::boolean, always<kCheckBuild>, nullptr},
    {"config.fill", Type::boolean, always<0>, nullptr},
    {"config.lazy_lock", Type::boolean, always<0>, nullptr},
    {"config.malloc_conf", Type::text, text<kEmpty>, nullptr},
    {"config.prof", Type::boolean, always<1>, nullptr},
    {"config.prof_libgcc", Type::boolean, always<0>, nullptr},
    {"config.prof_libunwind", Type::boolean, always<0>, nullptr},
    {"config.stats", Type::boolean, always<1>, nullptr},
    {"config.utrace", Type::boolean, always<0>, nullptr},
    {"config.xmalloc", Type::boolean, always<0>, nullptr},

    {"opt.abort", Type::boolean, [](const Call&) { return Answer{option(Option::invalid) == 0}; },
     nullptr},
    {"opt.abort_conf", Type::boolean, always<0>, nullptr},
    {"opt.confirm_conf", Type::boolean, always<0>, nullptr},
    {"opt.cache_oblivious", Type::boolean, always<1>, nullptr},
    {"opt.metadata_thp", Type::text, text<kDisabled>, nullptr},
    {"opt.dss", Type::text, text<kDisabled>, nullptr},
    {"opt.narenas", Type::unsigned_int, always<1>, nullptr},
    {"opt.oversize_threshold", Type::size, always<0>, nullptr},
    {"opt.percpu_arena", Type::text, text<kDisabled>, nullptr},
    {"opt.background_thread", Type::boolean, is_option_on<Option::purge_thread>, nullptr},
    {"opt.max_background_threads", Type::size, always<1>, nullptr},
    {"opt.dirty_decay_ms", Type::ssize, option_value<Option::decay_ms>, nullptr},
    {"opt.muzzy_decay_ms", Type::ssize, always<0>, nullptr},
    {"opt.stats_print", Type::boolean, is_option_on<Option::stats>, nullptr},
    {"opt.stats_print_opts", Type::text, text<kEmpty>, nullptr},
    {"opt.stats_interval", Type::uint64, always<~uint64_t{0}>, nullptr},
    {"opt.stats_interval_opts", Type::text, text<kEmpty>, nullptr},
    {"opt.junk", Type::text, text<kFalse>, nullptr},
    {"opt.zero", Type::boolean, always<0>, nullptr},
    {"opt.utrace", Type::boolean, always<0>, nullptr},
    {"opt.xmalloc", Type::boolean, always<0>, nullptr},
    {"opt.tcache", Type::boolean, always<1>, nullptr},
    {"opt.tcache_max", Type::size, always<kMediumMax>, nullptr},
    {"opt.thp", Type::text,
     [](const Call&) {
       return Answer{word_of(option(Option::huge_pages) != 0 ? kDefault : kNever)};
     },
     nullptr},
    {"opt.prof", Type::boolean, always<1>, nullptr},
    {"opt.prof_active", Type::boolean, is_option_on<Option::profile>, nullptr},
    {"opt.prof_final", Type::boolean, is_option_on<Option::profile>, nullptr},
    {"opt.prof_accum", Type::boolean, always<1>, nullptr},
    {"opt.prof_gdump", Type::boolean, always<0>, nullptr},
    {"opt.prof_leak", Type::boolean, always<0>, nullptr},
    {"opt.prof_leak_error", Type::boolean, always<0>, nullptr},
    {"opt.lg_prof_sample", Type::size,
     [](const Call&) {
       return Answer{log2_floor(static_cast<size_t>(option(Option::profile_interval)))};
     },
     nullptr},
    {"opt.lg_prof_interval", Type::ssize, always<~uint64_t{0}>, nullptr},
    {"opt.zero_realloc", Type::text, text<kFree>, nullptr},

    {"thread.arena", Type::unsigned_int, always<0>, set_arena_of_thread},
    {"thread.idle", Type::none, nullptr, flush_own},
    {"thread.tcache.enabled", Type::boolean, always<1>, nullptr},
    {"thread.tcache.flush", Type::none, nullptr, flush_own},

    {"tcache.create", Type::unsigned_int, create_cache, nullptr, Order::only_whole},
    {"tcache.flush", Type::unsigned_int, nullptr, flush_cache},
    {"tcache.destroy", Type::unsigned_int, nullptr, destroy_cache},

    {"arena.<i>.initialized", Type::boolean, is_initialised, nullptr},
    {"arena.<i>.decay", Type::none, nullptr, decay_arena},
    {"arena.<i>.purge", Type::none, nullptr, purge_arena},
    {"arena.<i>.destroy", Type::none, nullptr, destroy_arena},
    {"arena.<i>.dss", Type::text, text<kDisabled>, nullptr},
    {"arena.<i>.dirty_decay_ms", Type::ssize, option_value<Option::decay_ms>, set_decay_of_arena},
    {"arena.<i>.muzzy_decay_ms", Type::ssize, read_muzzy, set_muzzy},

    {"arenas.narenas", Type::unsigned_int, [](const Call&) { return Answer{arena_count()}; },
     nullptr},
    {"arenas.dirty_decay_ms", Type::ssize, option_value<Option::decay_ms>, set_decay},
    {"arenas.muzzy_decay_ms", Type::ssize, read_muzzy, set_muzzy},
    {"arenas.quantum", Type::size, always<kBlockAlign>, nullptr},
    {"arenas.page", Type::size, [](const Call&) { return Answer{os::page_size()}; }, nullptr},
    {"arenas.tcache_max", Type::size, always<kMediumMax>, nullptr},
    {"arenas.nbins", Type::unsigned_int, always<kClasses>, nullptr},
    {"arenas.nhbins", Type::unsigned_int, always<kClasses>, nullptr},
    {"arenas.bin.<i>.size", Type::size, [](const Call& call) { return Answer{bin(call).size}; },
     nullptr},
    {"arenas.bin.<i>.nregs", Type::uint32,
     [](const Call& call) { return Answer{bin(call).capacity}; }, nullptr},
    {"arenas.bin.<i>.slab_size", Type::size,
     [](const Call& call) { return Answer{bin(call).slices * kSliceSize}; }, nullptr},
    {"arenas.nlextents", Type::unsigned_int, always<0>, nullptr},
    {"arenas.create", Type::unsigned_int, create_arena, nullptr, Order::only_whole},
    {"arenas.lookup", Type::unsigned_int, find_arena, [](const Call&) { return 0; },
     Order::only_whole, Type::pointer},

    {"prof.active", Type::boolean, is_profiling, set_profiling},
    {"prof.dump", Type::text, nullptr, dump_profile},
    {"prof.gdump", Type::boolean, always<0>, nullptr},
    {"prof.reset", Type::size, nullptr, reset_profile},
    {"prof.lg_sample", Type::size, sample_rate, nullptr},
    {"prof.interval", Type::uint64, always<0>, nullptr},

    {"stats.allocated", Type::size, bytes<Sum::small, Sum::large>, nullptr},
    {"stats.active", Type::size, bytes<Sum::active>, nullptr},
    {"stats.metadata", Type::size, bytes<Sum::metadata>, nullptr},
    {"stats.resident", Type::size, bytes<Sum::active, Sum::dirty, Sum::metadata>, nullptr},
    {"stats.mapped", Type::size, bytes<Sum::active, Sum::metadata>, nullptr},
    {"stats.retained", Type::size, bytes<Sum::retained>, nullptr},
    {"stats.arenas.<i>.dss", Type::text, text<kDisabled>, nullptr},
    {"stats.arenas.<i>.dirty_decay_ms", Type::ssize, option_value<Option::decay_ms>, nullptr},
    {"stats.arenas.<i>.muzzy_decay_ms", Type::ssize, read_muzzy, nullptr},
    {"stats.arenas.<i>.pactive", Type::size, pages_in<Sum::active>, nullptr},
    {"stats.arenas.<i>.pdirty", Type::size, pages_in<Sum::dirty>, nullptr},
    {"stats.arenas.<i>.pmuzzy", Type::size, always<0>, nullptr},
    {"stats.arenas.<i>.mapped", Type::size, bytes_in<Sum::active, Sum::metadata>, nullptr},
    {"stats.arenas.<i>.retained", Type::size, bytes_in<Sum::retained>, nullptr},
    {"stats.arenas.<i>.base", Type::size, bytes_in<Sum::metadata>, nullptr},
    {"stats.arenas.<i>.internal", Type::size, always<0>, nullptr},
    {"stats.arenas.<i>.resident", Type::size, bytes_in<Sum::active, Sum::dirty, Sum::metadata>,
     nullptr},
    {"stats.arenas.<i>.dirty_nmadvise", Type::uint64, bytes_in<Sum::purge_calls>, nullptr},
    {"stats.arenas.<i>.dirty_purged", Type::uint64, pages_in<Sum::purged>, nullptr},
    {"stats.arenas.<i>.small.allocated", Type::size, bytes_in<Sum::small>, nullptr},
    {"stats.arenas.<i>.large.allocated", Type::size, bytes_in<Sum::large>, nullptr},
    {"stats.arenas.<i>.bins.<j>.curregs", Type::size, regions, nullptr},
    {"stats.arenas.<i>.bins.<j>.curslabs", Type::size, slabs, nullptr},
};

}  // namespace

constinit const Rows kRows = {kNames, sizeof kNames / sizeof kNames[0]};

}  // namespace near::jemalloc
