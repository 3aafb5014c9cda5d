// The workload `set_updates` on one structure, for every scheme: prefill, measured region, proof.
//
// Invariant: at the end the structure holds exactly the keys that were inserted and not erased, by
// number and by sum, and its check() passes; otherwise the result is not verified.
// Thread-safety: one thread calls run(), which starts the others. One file for each structure
// includes this header.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <nearmalloc/reclaim/domain.hpp>
#include <nearmalloc/reclaim/schemes.hpp>
#include <nearmalloc/reclaim/timeline.hpp>
#include <thread>
#include <type_traits>

#include "allocator_events.h"
#include "marking.h"
#include "set_updates.h"

namespace set_updates {

// Ends the waits of the other threads when the work is done.
class Done {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  // True if the work was done before the time was over.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

template <class Set, class Domain>
class Execution {
 public:
  explicit Execution(const Run& run)
      : run_(run),
        setting_(run.setting),
        domain_(run.setting.domain_options(run.record_to)),
        set_(domain_) {}

  void run() {
    prefill();
    if (run_.pool != nullptr) run_.pool->open(setting_.pool_mib << 20);
    const Statistics before = domain_.collect();
    lost_before_ = before.lost;
    const workload::AllocatorEvents events;
    std::vector<std::thread> others = start_others();
    begun_ = near::reclaim::timeline::now();
    measure();
    record_region(near::reclaim::timeline::now());
    const Statistics after = domain_.collect();
    done_.set();
    for (std::thread& other : others) other.join();
    record_garbage(after);
    report(before, after, events);
  }

 private:
  using Handle = typename Domain::handle_type;
  using Guard = typename Domain::guard_type;
  using Statistics = near::reclaim::statistics;
  static constexpr uint64_t kPrefillNumbers = uint64_t{1} << 40;  // the region uses lower numbers
  static constexpr std::chrono::milliseconds kSampleEvery{2};

  void execute(Guard& guard, const Operation& wanted, Tally& tally) {
    const int64_t key = wanted.key;
    switch (wanted.kind) {
      case Operation::kInsert:
        if (set_.insert(guard, key, value_of(key))) count(tally, key, 1);
        break;
      case Operation::kErase:
        if (set_.erase(guard, key)) count(tally, key, -1);
        break;
      case Operation::kFind:
        if (const auto found = set_.find(guard, key)) tally.wrong += *found != value_of(key);
        break;
      case Operation::kRange:
        visit(guard, key, tally);
    }
  }

  static void count(Tally& tally, int64_t key, int sign) {
    tally.keys += sign;
    tally.key_sum += static_cast<uint64_t>(key * sign);
  }

  // Does one operation under a guard; under qsbr the thread then says that it holds nothing.
  template <class F>
  static void operate(Handle& handle, F operation_under) {
    {
      Guard guard = handle.pin();
      operation_under(guard);
    }
    if constexpr (requires { handle.quiescent(); }) handle.quiescent();
  }

  void visit(Guard& guard, int64_t key, Tally& tally) {
    if constexpr (requires { set_.range(guard, key, key, [](int64_t, uint64_t) {}); }) {
      const auto end = key + static_cast<int64_t>(setting_.range_keys);
      const uint64_t begun = tally.ranges != nullptr ? near::reclaim::timeline::now() : 0;
      const size_t visited = set_.range(guard, key, end, [&](int64_t each, uint64_t value) {
        tally.wrong += value != value_of(each);
      });
      tally.visited += visited;
      if (tally.ranges == nullptr) return;
      tally.ranges->interval(near::reclaim::kind::range_query, begun,
                             near::reclaim::timeline::now(), static_cast<uint64_t>(key),
                             static_cast<uint32_t>(visited));
    }
  }

  void work(Numbers& numbers, Tally& tally) {
    const uint64_t started = thread_ns();
    Handle handle = domain_.attach();
    if (run_.record_to != nullptr && setting_.range_percent != 0) {
      tally.ranges = run_.record_to->join("range queries");
    }
    const bool manual = setting_.policy == "manual";
    for (auto chunk = numbers.take(); chunk.begin != chunk.end; chunk = numbers.take()) {
      for (uint64_t number = chunk.begin; number != chunk.end; ++number) {
        const Operation next = operation(setting_, number);
        const bool timed = setting_.latency != 0 && number % setting_.latency == 0;
        const uint64_t start = timed ? thread_ns() : 0;
        operate(handle, [&](Guard& guard) { execute(guard, next, tally); });
        if (timed) tally.latencies.record(thread_ns_since(start));
        tally.words += next.word;
        if (manual && number % setting_.every == 0) handle.reclaim(setting_.objects);
      }
      tally.operations += chunk.end - chunk.begin;
    }
    tally.cpu_ns = thread_ns() - started;
  }

  // Afterwards half of the keys are in the set, and no object waits to be freed. With `mixed`, two
  // updates for each key leave half of the keys less 2 % in the set.
  void prefill() {
    if (setting_.prefill == "none") return;
    const bool mixed = setting_.prefill == "mixed";
    Numbers numbers(mixed ? kPrefillNumbers : 0, mixed ? 2 * setting_.keys : setting_.keys);
    const size_t processors = std::max(1U, std::thread::hardware_concurrency());
    std::vector<Tally> tallies(std::min(setting_.threads, processors));
    std::vector<std::thread> threads;
    for (Tally& tally : tallies) {
      threads.emplace_back([&] { mixed ? update(numbers, tally) : insert_half(numbers, tally); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Tally& tally : tallies) prefilled_.add(tally);
    // barrier() makes its thread a member until the thread ends. The token would wait for that
    // member, so a thread of its own calls it.
    std::thread([&] { domain_.barrier(); }).join();
  }

  void update(Numbers& numbers, Tally& tally) {
    Setting updates = setting_;
    updates.updates = 100;
    updates.range_percent = 0;
    Handle handle = domain_.attach();
    for (auto chunk = numbers.take(); chunk.begin != chunk.end; chunk = numbers.take()) {
      for (uint64_t number = chunk.begin; number != chunk.end; ++number) {
        const Operation next = operation(updates, number);
        operate(handle, [&](Guard& guard) { execute(guard, next, tally); });
      }
    }
  }

  // Inserts each key with probability 1/2, in an order unrelated to the order of the keys.
  void insert_half(Numbers& numbers, Tally& tally) {
    constexpr uint64_t kPrime = 2'654'435'761;
    Handle handle = domain_.attach();
    for (auto chunk = numbers.take(); chunk.begin != chunk.end; chunk = numbers.take()) {
      for (uint64_t number = chunk.begin; number != chunk.end; ++number) {
        const uint64_t key = number * kPrime % setting_.keys;
        if ((mixed(key) & 1) == 0) continue;
        const Operation next{key, Operation::kInsert, static_cast<int64_t>(key)};
        operate(handle, [&](Guard& guard) { execute(guard, next, tally); });
      }
    }
  }

  void measure() {
    std::vector<Tally> tallies(setting_.threads);
    Numbers numbers(0, setting_.operations);
    run_.workload.run(setting_.threads,
                      [&](workload::Worker&, size_t index) { work(numbers, tallies[index]); });
    for (const Tally& tally : tallies) measured_.add(tally);
  }

  std::vector<std::thread> start_others() {
    std::vector<std::thread> others;
    others.emplace_back([&] { sample_garbage(); });
    const bool inside = setting_.stall_ms != 0, between = setting_.sleep_between_ms != 0;
    std::latch asleep(ptrdiff_t{inside} + ptrdiff_t{between});
    if (inside) others.emplace_back([&] { sleep_inside(asleep); });
    if (between) others.emplace_back([&] { sleep_between(asleep); });
    asleep.wait();
    return others;
  }

  // Runs in a thread that sleeps once inside an operation.
  void sleep_inside(std::latch& asleep) {
    workload::marking::exclude_thread();
    Handle handle = domain_.attach();
    Guard guard = handle.pin();
    (void)set_.find(guard, static_cast<int64_t>(setting_.keys / 2));
    asleep.count_down();
    (void)done_.wait(std::chrono::milliseconds(setting_.stall_ms));
  }

  // Runs in a thread that is always attached and executes one operation before each sleep.
  void sleep_between(std::latch& asleep) {
    workload::marking::exclude_thread();
    Handle handle = domain_.attach();
    find_middle(handle);
    asleep.count_down();
    while (!done_.wait(std::chrono::milliseconds(setting_.sleep_between_ms))) find_middle(handle);
  }

  void find_middle(Handle& handle) {
    operate(handle,
            [&](Guard& guard) { (void)set_.find(guard, static_cast<int64_t>(setting_.keys / 2)); });
  }

  void sample_garbage() {
    workload::marking::exclude_thread();
    do record_garbage(domain_.collect());
    while (!done_.wait(kSampleEvery));
  }

  void record_garbage(const Statistics& now) {
    const uint64_t unreclaimed = now.unreclaimed + now.lost - lost_before_;
    sum_unreclaimed_ += unreclaimed;
    ++samples_;
    peak_unreclaimed_ = std::max(peak_unreclaimed_, unreclaimed);
  }

  void report(const Statistics& before, const Statistics& after,
              const workload::AllocatorEvents& events) {
    workload::Workload& result = run_.workload;
    prove();
    const double seconds = result.seconds();
    result.add("ops_per_s", static_cast<double>(measured_.operations) / seconds);
    result.add("keys_after", static_cast<uint64_t>(set_.size()));
    if (measured_.visited != 0) result.add("keys_visited", measured_.visited);
    result.add("epochs", after.epochs - before.epochs);
    result.add("retired", after.retired - before.retired);
    result.add("freed", after.freed - before.freed);
    result.add("lost", after.lost - before.lost);
    result.add("peak_unreclaimed", peak_unreclaimed_);
    result.add("mean_unreclaimed",
               static_cast<double>(sum_unreclaimed_) / static_cast<double>(samples_));
    result.add("bound_unreclaimed", after.bound);
    result.add("longest_free_run", after.longest_run);
    result.add("heavy_fences", after.heavy_fences - before.heavy_fences);
    result.add("stalls", after.stalls - before.stalls);
    if (setting_.freeing_time != 0) {
      const auto freeing = static_cast<double>(after.freeing_ns - before.freeing_ns);
      result.add("freeing_share", freeing / static_cast<double>(measured_.cpu_ns));
    }
    if (measured_.latencies.count() != 0) result.add("operation_ns", measured_.latencies);
    events.report(result, measured_.operations);
    if (run_.pool != nullptr) result.add("pool_used_mib", run_.pool->used() >> 20);
  }

  // The reader of timelines begins where the interval of this row does.
  void record_region(uint64_t end) const {
    if (run_.record_to == nullptr) return;
    near::reclaim::track* const row = run_.record_to->join("measured");
    row->interval(run_.record_to->define("measured"), begun_, end);
    row->leave();
  }

  // Checks that the set holds exactly the keys that were counted.
  void prove() {
    const uint64_t missing_sum = prefilled_.key_sum + measured_.key_sum - set_.key_sum();
    const int64_t missing = prefilled_.keys + measured_.keys - static_cast<int64_t>(set_.size());
    const uint64_t wrong = prefilled_.wrong + measured_.wrong;
    const bool right = missing_sum == 0 && missing == 0 && wrong == 0 && set_.check();
    const uint64_t bound = domain_.collect().bound;
    const bool bounded = bound == 0 || peak_unreclaimed_ <= bound;
    run_.workload.prove(measured_.words, measured_.operations, right && bounded,
                        bounded ? "the set is not what was inserted and not erased"
                                : "more objects wait to be freed than the scheme's bound");
  }

  const Run& run_;
  const Setting& setting_;
  Domain domain_;
  Set set_;
  Done done_;
  Tally prefilled_;
  Tally measured_;
  uint64_t begun_ = 0;        // the measured region, by the clock of timelines
  uint64_t lost_before_ = 0;  // objects that the prefill leaked
  uint64_t peak_unreclaimed_ = 0;
  uint64_t sum_unreclaimed_ = 0;
  uint64_t samples_ = 0;
};

// Runs the structure under the chosen scheme; Structure<Domain> is its type.
template <template <class> class Structure>
void run_under_scheme(const Run& run) {
  using namespace near::reclaim;
  const auto under = [&]<class Scheme>(const char* name, std::type_identity<Scheme>) {
    if (run.setting.scheme != name) return;
    Execution<Structure<domain<Scheme>>, domain<Scheme>>(run).run();
  };
  under("leaky", std::type_identity<leaky>());
  under("debra", std::type_identity<debra<announce::before_free>>());
  under("debra_free_first", std::type_identity<debra<announce::after_free>>());
  under("checkpoints", std::type_identity<checkpoints>());
  under("token_naive", std::type_identity<token<pass::after_free>>());
  under("token_pass_first", std::type_identity<token<pass::before_free>>());
  under("token_periodic", std::type_identity<token<pass::while_freeing>>());
  under("token", std::type_identity<token<pass::while_freeing>>());
  under("hazard_pointers", std::type_identity<hazard_pointers>());
  under("ping", std::type_identity<ping_epochs>());
  under("ibr", std::type_identity<ibr>());
  under("hyaline", std::type_identity<hyaline>());
  under("qsbr", std::type_identity<qsbr>());
}

}  // namespace set_updates
