// Runs the models of one protocol: a program explores its suites, and all of them have to hold.
// Given `mutants`, the same program tries each mutation, and under each a suite has to fail.
// Invariant: the line "cases: N" counts executions explored, or mutations found; none is a failure.
// Thread-safety: only the main program of each model (model_main.cc) uses it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <source_location>
#include <span>
#include <streambuf>
#include <vector>

#include "base/atomic.h"

namespace near::model {

// Fails the present execution unless `holds`.
inline void expect(bool holds, const char* what, const Place& place = Place::current()) {
  if (!holds) rl::ctx().fail_test(what, rl::test_result_user_assert_failed, debug_info(place));
}

// An event that must occur in some execution: a model in which nothing is freed proves nothing.
class Witness {
 public:
  explicit Witness(const char* name) : name_(name), next_(all_) { all_ = this; }
  void note() { count_++; }

  // Prints how often each happened. False if one never did.
  static bool report() {
    bool complete = true;
    for (const Witness* each = all_; each != nullptr; each = each->next_) {
      std::printf("%s: %llu\n", each->name_, static_cast<unsigned long long>(each->count_));
      complete = complete && each->count_ > 0;
    }
    if (!complete) std::printf("what never happens is not explored\n");
    return complete;
  }

 private:
  inline static Witness* all_ = nullptr;
  const char* name_;
  Witness* next_;
  uint64_t count_ = 0;
};

// A choice among `limit` that the search makes, like that of the next thread.
inline uint32_t choose(uint32_t limit) { return rl::rand(limit); }

// A random walk of this many executions.
struct Random {
  template <rl::thread_id_t threads>
  using Scheduler = rl::random_scheduler<threads>;
  uint64_t executions;
};
// Every execution with at most this many switches away from a thread that could run on.
struct Bounded {
  template <rl::thread_id_t threads>
  using Scheduler = rl::context_bound_scheduler<threads>;
  unsigned switches;
};
// Every execution.
struct Full {
  template <rl::thread_id_t threads>
  using Scheduler = rl::full_search_scheduler<threads>;
};

// Spins are livelocks only beyond this many steps.
inline constexpr unsigned kStepLimit = 3000;

inline rl::test_params parameters(Random search) {
  rl::test_params parameters;
  parameters.search_type = rl::sched_random;
  parameters.iteration_count = search.executions;
  return parameters;
}
inline rl::test_params parameters(Bounded search) {
  rl::test_params parameters;
  parameters.search_type = rl::sched_bound;
  parameters.context_bound = search.switches;
  return parameters;
}
inline rl::test_params parameters(Full) {
  rl::test_params parameters;
  parameters.search_type = rl::sched_full;
  return parameters;
}

// One suite and one way to search it.
struct Exploration {
  const char* name;
  rl::test_params parameters;
  bool (*run)(rl::test_params&);
};

// Searches a suite in one way; a failure is run again for its history. rl::simulate does the same,
// and is compiled for all three ways, which takes three times as long.
template <typename Suite, typename Search>
bool simulate(rl::test_params& parameters) {
  using Scheduler = typename Search::template Scheduler<Suite::params::thread_count>;
  rl::ostringstream state;  // whose memory Relacy does not count
  const rl::test_result_e result = rl::run_test<Suite, Scheduler>(parameters, state, false);
  if (result != rl::test_result_success) {
    parameters.initial_state = state.str();
    parameters.collect_history = true;
    rl::ostringstream again;
    rl::run_test<Suite, Scheduler>(parameters, again, true);
  }
  return result == Suite::params::expected_result;
}

template <typename Suite, typename Search>
Exploration explore(const char* name, Search search) {
  return {name, parameters(search), simulate<Suite, Search>};
}

// Relacy's message about a failure. It has a buffer of its own, because Relacy counts allocations
// while it runs.
class Report : std::streambuf {
 public:
  Report() : stream(this) { setp(text_, text_ + sizeof(text_) - 1); }
  const char* text() {
    *pptr() = 0;
    return text_;
  }

  std::ostream stream;

 private:
  char text_[size_t{1} << 18];
};

struct Outcome {
  bool holds;
  uint64_t executions;
  const char* result;
};

// Runs one exploration; Relacy's message about a failure goes to `report`.
inline Outcome run(const Exploration& exploration, double scale, std::ostream& report) {
  rl::test_params parameters = exploration.parameters;
  std::ostream nowhere(nullptr);
  if (parameters.search_type == rl::sched_random) {
    const double executions = static_cast<double>(parameters.iteration_count) * scale;
    parameters.iteration_count = executions < 1 ? 1 : static_cast<uint64_t>(executions);
  }
  parameters.execution_depth_limit = kStepLimit;
  parameters.output_stream = &report;
  parameters.progress_stream = &nowhere;
  const bool holds = exploration.run(parameters);
  return {holds, parameters.stop_iteration, rl::test_result_str(parameters.test_result)};
}

inline double scale_of_environment() {
  const char* text = std::getenv("NEAR_TEST_SCALE");
  const double scale = text == nullptr ? 1 : std::strtod(text, nullptr);
  return scale > 0 ? scale : 1;
}

inline int run_suites(std::span<const Exploration> explorations) {
  uint64_t cases = 0;
  for (const Exploration& exploration : explorations) {
    Report report;
    const Outcome outcome = run(exploration, scale_of_environment(), report.stream);
    std::printf("%s, %s: %llu executions, %s\n", exploration.name,
                rl::format(exploration.parameters.search_type),
                static_cast<unsigned long long>(outcome.executions), outcome.result);
    cases += outcome.executions;
    if (outcome.holds) continue;
    std::printf("%s\n", report.text());
    return 1;
  }
  const bool complete = Witness::report();
  std::printf("cases: %llu\n", static_cast<unsigned long long>(cases));
  return cases > 0 && complete ? 0 : 1;
}

// True if some suite fails under the present mutation.
inline bool is_found(std::span<const Exploration> explorations, bool verbose) {
  for (const Exploration& exploration : explorations) {
    Report report;
    const Outcome outcome = run(exploration, 1, report.stream);
    if (outcome.holds) continue;
    std::printf("found   %-52.*s %s, execution %llu of %s\n",
                static_cast<int>(mutation->name.size()), mutation->name.data(), outcome.result,
                static_cast<unsigned long long>(outcome.executions), exploration.name);
    if (verbose) std::printf("%s\n", report.text());
    return true;
  }
  std::printf("MISSED  %.*s\n", static_cast<int>(mutation->name.size()), mutation->name.data());
  return false;
}

// Runs all mutations, or only the named one, whose history it prints.
inline int run_mutations(std::span<const Exploration> explorations,
                         std::span<const Mutation> mutations, const char* only) {
  unsigned tried = 0;
  unsigned found = 0;
  for (const Mutation& each : mutations) {
    if (only != nullptr && each.name != only) continue;
    mutation = &each;
    tried++;
    if (is_found(explorations, only != nullptr)) found++;
  }
  std::printf("cases: %u\n", found);
  return tried > 0 && found == tried ? 0 : 1;
}

// Each model defines these.
extern const std::vector<Exploration> kExplorations;
extern const std::vector<Mutation> kMutations;

}  // namespace near::model
