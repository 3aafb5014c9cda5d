// The parts of the workload `set_updates` that depend neither on structure nor on scheme.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nearmalloc/reclaim/timeline.hpp>
#include <optional>
#include <utility>

#include "set_updates.h"

namespace set_updates {
namespace {

using near::reclaim::policy;

constexpr std::array<std::pair<const char*, void (*)(const Run&)>, 7> kStructures{
    {{"abtree", run_abtree},
     {"abtree13", run_abtree13},
     {"occtree", run_occtree},
     {"occtree_spin", run_occtree_spin},
     {"skip_list", run_skip_list},
     {"list", run_list},
     {"hash_map", run_hash_map}}};

policy policy_of(const Setting& setting) {
  const auto objects = static_cast<uint32_t>(setting.objects);
  const auto every = static_cast<uint32_t>(setting.every);
  if (setting.policy == "amortized") return policy::amortized(objects, every);
  if (setting.policy == "adaptive") return policy::adaptive(objects, every);
  if (setting.policy == "manual") return policy::manual();
  if (setting.policy == "budget") {
    return policy::budget(static_cast<uint32_t>(setting.budget_ns), every);
  }
  return policy::batch();
}

uint64_t clock_cost() {
  std::array<uint64_t, 1001> costs;
  for (uint64_t& cost : costs) {
    const uint64_t start = thread_ns();
    cost = thread_ns() - start;
  }
  std::nth_element(costs.begin(), costs.begin() + costs.size() / 2, costs.end());
  return costs[costs.size() / 2];
}

void add_work(workload::Workload& workload, Setting& setting) {
  std::vector<std::string> structures;
  for (const auto& [name, run] : kStructures) structures.emplace_back(name);
  workload.choice("--structure", setting.structure, structures, "where the keys are");
  workload.count("--threads", setting.threads, 2, "threads that work");
  workload.count("--keys", setting.keys, 200'000, "keys are below it");
  workload.count("--operations", setting.operations, 500'000, "of all threads together");
  workload.option("--updates", setting.updates, "percent insertions and erasures; rest: finds");
  workload.option("--range", setting.range_percent, "percent range queries");
  workload.count("--range-keys", setting.range_keys, "keys that a range query spans");
  workload.choice("--prefill", setting.prefill, {"mixed", "inserts", "none"},
                  "what makes the set half full before: updates, insertions, nothing");
  workload.option("--stall-ms", setting.stall_ms,
                  "one more thread sleeps so long inside an operation");
  workload.option("--sleep-between-ms", setting.sleep_between_ms,
                  "one more thread sleeps so long between two operations");
}

void add_reclamation(workload::Workload& workload, Setting& setting) {
  workload.choice(
      "--scheme", setting.scheme,
      {"leaky", "debra", "debra_free_first", "checkpoints", "token_naive", "token_pass_first",
       "token_periodic", "token", "hazard_pointers", "ping", "ibr", "hyaline", "qsbr"},
      "the scheme that decides when an object is safe to free");
  workload.choice("--policy", setting.policy,
                  {"batch", "amortized", "adaptive", "budget", "manual"},
                  "how what is safe is freed");
  workload.count("--objects", setting.objects, "freed at a time: amortized, adaptive, manual");
  workload.count("--every", setting.every, "operations between two times");
  workload.count("--budget-ns", setting.budget_ns, "time for freeing, each time");
  workload.option("--batch", setting.batch, "objects a thread retires before it looks; 0: always");
  workload.count("--check-every", setting.check_every,
                 "operations between two looks at another thread, or for the token");
  workload.choice("--hook", setting.hook, {"auto", "none"}, "runs go to near_free_batch, or not");
  workload.option("--latency", setting.latency, "one operation in so many is timed; 0: none");
  workload.option("--freeing-time", setting.freeing_time, "1: the time spent freeing is measured");
  workload.option("--timeline", setting.timeline, "a file for what every thread does");
  workload.count("--timeline-events", setting.timeline_events,
                 "of one thread, the rest is dropped");
}

}  // namespace

near::reclaim::options Setting::domain_options(near::reclaim::timeline* record_to) const {
  near::reclaim::options options;
  options.reclaim = policy_of(*this);
  options.batch_size = batch;
  options.operations_between_checks = static_cast<uint32_t>(check_every);
  // The published token ring waits for a thread that begins no operation; only ours skips it.
  options.skip_idle = scheme == "token";
  options.hand_over_runs = hook == "auto";
  options.measure_time = freeing_time != 0;
  options.record_to = record_to;
  return options;
}

// [Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014]
uint64_t mixed(uint64_t number) {
  uint64_t word = (number + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

Operation operation(const Setting& setting, uint64_t number) {
  const uint64_t word = mixed(number);
  const auto key = static_cast<int64_t>(((word >> 32) * setting.keys) >> 32);
  const size_t percent = (word & 0xffff) * 100 >> 16;
  Operation::Kind kind = Operation::kFind;
  if (percent < setting.range_percent) {
    kind = Operation::kRange;
  } else if (percent < setting.range_percent + setting.updates) {
    kind = (word >> 16 & 1) != 0 ? Operation::kInsert : Operation::kErase;
  }
  return {word, kind, key};
}

void Tally::add(const Tally& other) {
  key_sum += other.key_sum;
  keys += other.keys;
  words += other.words;
  operations += other.operations;
  wrong += other.wrong;
  visited += other.visited;
  cpu_ns += other.cpu_ns;
  latencies.add(other.latencies);
}

uint64_t thread_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t thread_ns_since(uint64_t start) {
  static const uint64_t cost = clock_cost();
  const uint64_t elapsed = thread_ns() - start;
  return elapsed > cost ? elapsed - cost : 0;
}

int run_program(const char* name, int argc, char** argv, const Pool* pool) {
  Setting setting;
  workload::Workload workload(name, "threads insert and erase keys; nodes are retired");
  add_work(workload, setting);
  add_reclamation(workload, setting);
  if (pool != nullptr) {
    setting.pool_mib = 1024;
    workload.count("--pool", setting.pool_mib, 256, "MiB for what is allocated, touched before");
  }
  workload.parse(argc, argv);
  workload.require(setting.range_percent + setting.updates <= 100,
                   "--updates and --range: above 100");
  workload.require(setting.keys <= UINT32_MAX, "--keys is above 2^32 - 1");

  std::optional<near::reclaim::timeline> timeline;
  if (!setting.timeline.empty()) timeline.emplace(3 * setting.threads + 8, setting.timeline_events);
  const Run run{workload, setting, pool, timeline ? &*timeline : nullptr};
  for (const auto& [structure, function] : kStructures) {
    if (setting.structure == structure) function(run);
  }
  if (timeline && !timeline->write(setting.timeline.c_str())) {
    std::perror(setting.timeline.c_str());
    return 1;
  }
  return workload.report();
}

}  // namespace set_updates
