#include "profile/profiler.h"

#include <ctime>

#include "heap/chance.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "platform/clock.h"
#include "profile/draws.h"
#include "profile/heaps.h"
#include "profile/kept.h"
#include "profile/known_rules.h"
#include "profile/spans.h"
#include "profile/stack.h"

namespace near::profile {

constinit RunningFlag running;

namespace {

constinit Mutex lock{Rank::profile};

// Guard: the lock.
struct State {
  Table table;
  bool any = false;
  uint64_t started_ms = 0;
  uint64_t started_at = 0;
  uint64_t stopped_ms = 0;
  uint64_t samples = 0;
  uint64_t dropped_blocks = 0;
  Weight live;
  Weight peak;
  uint64_t peak_number = 0;
  unsigned writers = 0;  // objects of HeldSites
};
constinit State state;
constinit SampledSpans spans;  // guard: the lock
constinit Kept kept;           // guard: the lock

constexpr size_t kOwnBytes =
    Table::kBytes + sizeof state + sizeof spans + sizeof kept + KnownRules::kBytes;
static_assert(kOwnBytes + sizeof(Kept::Layout) <= kMostOwnBytes);

constinit Draws draws;

struct Stack {
  uintptr_t frames[kMaxFrames];
  unsigned depth;
  NEAR_INLINE Stack() : depth(capture_stack(frames, kMaxFrames)) {}
};

uint64_t rounded(double value) {
  constexpr double kHalf = 0.5;
  return static_cast<uint64_t>(value + kHalf);
}

struct Sizes {
  size_t asked;
  size_t block;  // bytes that the block has for the program
};

// A small block was marked with the chance for its own bytes (heap/marks.h); others were counted by
// the bytes asked for.
// Not inlined: a free must subtract exactly what the allocation added, and compilers may round
// copies of the code differently.
NEAR_NOINLINE Estimate estimate_of(Sizes sizes) {
  const double mean = static_cast<double>(draws.mean());
  const double chance = chance_of(sizes.block <= kSmallMax ? sizes.block : sizes.asked, mean);
  const double bytes = static_cast<double>(sizes.asked) / chance;
  Estimate out;
  out.weight.blocks = rounded(static_cast<double>(kBlockUnit) / chance);
  out.weight.bytes = rounded(bytes);
  out.variance = bytes * bytes * (1 - chance);
  return out;
}

NEAR_NOINLINE uint64_t waste_of(const Sample& sample, const Weight& weight) {
  if (sample.size == 0 || sample.block <= sample.size) return 0;
  const double beyond = static_cast<double>(sample.block - sample.size);
  return rounded(beyond * static_cast<double>(weight.blocks) / kBlockUnit);
}

void count_allocated(Site& site, const Estimate& estimate) {
  site.samples++;
  site.allocated += estimate.weight;
  site.variance += estimate.variance;
  state.samples++;
}

void count_live(Site& site, const Sample& sample, const Estimate& estimate) {
  site.keep_peak(state.peak_number);
  const uint64_t waste = waste_of(sample, estimate.weight);
  site.live += estimate.weight;
  site.live_variance += estimate.variance;
  site.waste += waste;
  site.live_waste += waste;
  state.live += estimate.weight;
  if (state.live.bytes <= state.peak.bytes) return;
  state.peak = state.live;
  state.peak_number++;  // the sites have their present sums then
}

struct Recorded {
  Site& site;
  Estimate estimate;
};

Estimate estimate_of(const Sample& sample) { return estimate_of(Sizes{sample.size, sample.block}); }

Recorded record_allocation(const Stack& stack, Sizes sizes) {
  const uint32_t number =
      state.table.find_site(stack.frames, stack.depth, state.writers == 0, state.peak_number);
  Site& site = state.table.site(number);
  const Recorded recorded{site, estimate_of(sizes)};
  count_allocated(site, recorded.estimate);
  return recorded;
}

// Requires room in the table.
void follow(const Recorded& recorded, void* block, Sizes sizes, Actor actor) {
  Sample& sample = *state.table.add(reinterpret_cast<uintptr_t>(block));
  sample.size = sizes.asked;
  sample.block = sizes.block & kMostBlock;
  sample.when = clock_ns(CLOCK_MONOTONIC);
  sample.site = static_cast<uint16_t>(state.table.number_of(recorded.site));
  sample.heap = actor.heap;
  sample.node = span_of(block)->node;
  count_live(recorded.site, sample, recorded.estimate);
}

double seconds_since(uint64_t when) {
  const uint64_t now = clock_ns(CLOCK_MONOTONIC);
  return static_cast<double>(now - min_of(now, when)) * 1e-9;
}

void count_not_live(Site& site, const Sample& sample, const Estimate& estimate) {
  site.keep_peak(state.peak_number);
  site.live -= estimate.weight;
  site.live_variance -= estimate.variance;
  site.live_waste -= waste_of(sample, estimate.weight);
  state.live -= estimate.weight;
}

void count_freed(const Sample& sample, Actor actor) {
  if (sample.site == kNoSite) return;
  Site& site = state.table.site(sample.site);
  const Estimate estimate = estimate_of(sample);
  const Weight& weight = estimate.weight;
  count_not_live(site, sample, estimate);
  site.freed += weight;
  const bool is_remote = actor.heap != sample.heap;
  if (is_remote) site.remote += weight;
  if (actor.node != sample.node) {
    site.moved += weight;
    site.moved_distance += weight.bytes * topology.distance(actor.node, sample.node);
  }
  site.count_node(actor.node, weight.bytes);
  site.count_heap(actor.heap, weight.bytes);
  site.count_lifetime(seconds_since(sample.when), weight.blocks, is_remote);
}

// Requires the lock.
Summary summary_now() {
  Summary out{};
  out.any = state.any;
  if (!state.any) return out;
  out.running = is_running();
  out.mean = draws.mean();
  out.started_ms = state.started_ms;
  out.started_at = state.started_at;
  out.stopped_ms = out.running ? coarse_now_ms() : state.stopped_ms;
  out.samples = state.samples;
  out.live_samples = state.table.live_samples();
  out.sites = state.table.site_count();
  out.dropped_stacks = state.table.dropped_stacks();
  out.dropped_blocks = state.dropped_blocks;
  out.own_bytes = kOwnBytes + (kept.is_open() ? sizeof(Kept::Layout) : 0);
  out.slice_bytes = spans.bytes();
  out.live = state.live;
  out.peak = state.peak;
  return out;
}

// Requires the lock. Called after the site changed.
void keep(const Site& site) {
  if (!kept.is_open()) return;
  kept.update(state.table, site);
  kept.update(summary_now(), state.peak_number);
}

}  // namespace

bool begin_sample(Heap& heap, size_t size) {
  if (!heap.countdown.is_drawn()) {
    heap.countdown.record_drawn();
    heap.countdown.set(draws.next());
    if (!heap.countdown.count(size)) return false;
  }
  heap.countdown.pause();
  return true;
}

bool begin_marked_sample(Heap& heap) {
  if (heap.countdown.is_paused()) return false;
  heap.countdown.record_drawn();
  heap.countdown.pause();
  return true;
}

void end_sample(Heap& heap) { heap.countdown.set(draws.next()); }

void* take_sampled(size_t size, unsigned size_class, Shard& shard, Actor actor, bool strict) {
  const Stack stack;
  const LockGuard guard(lock);
  if (!is_running()) return nullptr;
  const Sizes sizes{size, class_size(size_class)};
  const Recorded recorded = record_allocation(stack, sizes);
  void* block = state.table.has_room() ? spans.take(shard, size_class, strict) : nullptr;
  if (block == nullptr) {
    state.dropped_blocks++;
  } else {
    follow(recorded, block, sizes, actor);
  }
  keep(recorded.site);
  return block;
}

void record_large(Span& span, size_t size, Actor actor) {
  const Stack stack;
  const LockGuard guard(lock);
  if (!is_running()) return;
  const Sizes sizes{size, span.bytes()};
  const Recorded recorded = record_allocation(stack, sizes);
  if (!state.table.has_room()) {
    state.dropped_blocks++;
  } else {
    span.sampled = Sampled::large;
    follow(recorded, span.start, sizes, actor);
  }
  keep(recorded.site);
}

bool record_growth(Span& span, size_t size) {
  const LockGuard guard(lock);
  Sample* sample = state.table.find(reinterpret_cast<uintptr_t>(span.start));
  if (sample == nullptr || sample->site == kNoSite || !is_running()) return false;
  Site& site = state.table.site(sample->site);
  const Estimate before = estimate_of(*sample);
  count_not_live(site, *sample, before);
  site.allocated -= before.weight;
  site.variance -= before.variance;
  site.waste -= waste_of(*sample, before.weight);
  sample->size = size;
  sample->block = span.bytes() & kMostBlock;
  const Estimate after = estimate_of(*sample);
  site.allocated += after.weight;
  site.variance += after.variance;
  count_live(site, *sample, after);
  keep(site);
  return true;
}

bool release_sampled(Span& span, void* block, Actor actor) {
  const LockGuard guard(lock);
  Sample sample;
  if (!state.table.remove(reinterpret_cast<uintptr_t>(block), sample)) return false;
  count_freed(sample, actor);
  if (span.sampled == Sampled::blocks) {
    spans.give(span, block);
  } else {
    span.sampled = Sampled::none;
  }
  keep(state.table.site(sample.site == kNoSite ? 0 : sample.site));
  return true;
}

size_t sampled_size(const void* block) {
  const LockGuard guard(lock);
  const Sample* sample = state.table.find(reinterpret_cast<uintptr_t>(block));
  return sample != nullptr ? sample->block : 0;
}

void count_new_heap(Heap& heap) {
  const LockGuard guard(lock);
  if (!is_running()) return;
  join_run(heap);
}

bool keep_in(int file, bool list) {
  if (!kept.prepare(file, list)) return false;
  const LockGuard guard(lock);
  kept.open();
  uint64_t allocated = 0;
  for (uint32_t i = 0; i < state.table.site_count(); i++) {
    allocated += state.table.site(i).allocated.bytes;
  }
  kept.update(state.table, state.table.site(0));
  kept.set_inherited(allocated);
  kept.update(summary_now(), state.peak_number);
  return true;
}

bool stop_keeping() {
  const LockGuard guard(lock);
  return kept.close();
}

HeldSites::HeldSites() {
  const LockGuard guard(lock);
  state.writers++;
}

HeldSites::~HeldSites() {
  const LockGuard guard(lock);
  if (state.writers > 0) state.writers--;  // 0: in a child that a handler in the writer forked
}

void forget_other_threads() {
  KnownRules::give_back_in_child();
  const LockGuard guard(lock);
  state.writers = 0;
}

void lock_for_fork() { lock.lock_for_fork(); }
void unlock_for_fork() { lock.unlock_for_fork(); }

Started start(size_t mean, uint64_t seed) {
  const LockGuard guard(lock);
  if (is_running()) return Started::already;
  if (!state.table.reset()) return Started::refused;
  state.any = true;
  state.started_ms = coarse_now_ms();
  state.started_at = clock_ns(CLOCK_REALTIME) / 1'000'000'000;
  state.samples = state.dropped_blocks = 0;
  state.live = state.peak = {};
  state.peak_number = 1;
  draws.begin(mean, seed);
  kept.start_anew();
  if (kept.is_open()) kept.set_inherited(0);
  keep(state.table.site(0));
  running.set();
  begin_run(mean, seed);
  return Started::yes;
}

bool stop() {
  const LockGuard guard(lock);
  if (!is_running()) return false;
  running.clear();
  end_run();
  state.stopped_ms = coarse_now_ms();
  keep(state.table.site(0));
  return true;
}

Summary summary() {
  const LockGuard guard(lock);
  return summary_now();
}

bool copy_site(uint32_t number, SiteCopy& out) {
  const LockGuard guard(lock);
  if (!state.any || number >= state.table.site_count()) return false;
  Site& site = state.table.site(number);
  site.keep_peak(state.peak_number);
  out.site = site;
  for (uint32_t i = 0; i < site.depth; i++) {
    out.numbers[i] = state.table.address_number(site.stack + i);
    out.frames[i] = state.table.address(out.numbers[i]);
  }
  return true;
}

bool copy_sample(uint32_t number, SampleCopy& out) {
  const LockGuard guard(lock);
  if (!state.any) return false;
  out.sample = state.table.sample(number);
  if (out.sample.address == 0 || out.sample.site == kNoSite) return false;
  out.estimate = estimate_of(out.sample);
  return true;
}

uintptr_t frame_address(uint32_t number) {
  const LockGuard guard(lock);
  return state.any ? state.table.address(number) : 0;
}

const void* own_memory() {
  const LockGuard guard(lock);
  return state.any ? state.table.start() : nullptr;
}

}  // namespace near::profile
