// What a simulation reports: the hash and the trace of its events, how many there were, and the one
// violation that ends it.
// Invariant: nothing that depends on addresses enters the hash, so a seed has the same hash in
// every run. Reports lie in memory that a process shares with those it forks.
// Thread-safety: the simulation that owns it.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace near_test {

enum class Event : unsigned {
  step,
  block,
  refusal,
  own_free,
  remote_free,
  large_free,
  batch,
  batched,
  group,
  migration,
  rehome,
  spill,
  adoption,
  start,
  exit,
  late_block,
  placed_block,
  bound_heap,
  bound_block,
  fork,
  trim,
  full_check,
  count,
};
inline constexpr unsigned kEvents = static_cast<unsigned>(Event::count);
const char* name_of(Event event);

struct Report {
  uint64_t step = 0;
  const char* action = "start";  // a literal: the same address in every process of a run
  uint64_t hash = 0xcbf29ce484222325;
  uint64_t events[kEvents] = {};
  uint64_t of_children[kEvents] = {};  // events after forks, in the children
  bool complete = false;
};

// Forks within forks.
inline constexpr unsigned kGenerations = 3;

class Journal {
 public:
  // `reports`: kGenerations of them; the first is this process's.
  Journal(uint64_t seed, bool trace, Report* reports);

  void begin(const char* action, unsigned thread);

  // Facts of the step: they enter the hash, and the trace.
  void note(std::initializer_list<uint64_t> facts);
  void note(const char* what, std::initializer_list<uint64_t> facts);

  void count(Event event, uint64_t number = 1);
  uint64_t seen(Event event) const { return report_->events[static_cast<unsigned>(event)]; }
  uint64_t step() const { return report_->step; }
  uint64_t seed() const { return seed_; }
  bool may_fork() const { return generation_ + 1 < kGenerations; }

  // Ends the process with "seed S step N: what (facts)".
  [[noreturn]] void fail(const char* what, std::initializer_list<uint64_t> facts = {}) const;
  void demand(bool holds, const char* what, std::initializer_list<uint64_t> facts = {}) const {
    if (!holds) fail(what, facts);
  }

  // Around fork: the child has its own report, which its parent takes into its own at the end.
  void prepare_child();
  void become_child();
  void read_child();

  // The simulation has ended.
  void complete() { report_->complete = true; }

 private:
  void mix(uint64_t fact);
  int indent() const { return static_cast<int>(4 * generation_); }

  uint64_t seed_;
  bool trace_;
  unsigned generation_ = 0;
  Report* report_;
};

}  // namespace near_test
