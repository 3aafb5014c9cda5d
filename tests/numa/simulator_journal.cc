#include "numa/simulator_journal.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace near_test {
namespace {

constexpr const char* kNames[kEvents] = {"steps",
                                         "blocks",
                                         "refusals",
                                         "own frees",
                                         "remote frees",
                                         "large frees",
                                         "batches",
                                         "in them",
                                         "groups",
                                         "migrations",
                                         "rehomes",
                                         "spills",
                                         "adoptions",
                                         "threads",
                                         "exits",
                                         "late blocks",
                                         "blocks on a named node",
                                         "bound heaps",
                                         "blocks of bound heaps",
                                         "forks",
                                         "trims",
                                         "full checks"};

void print(std::initializer_list<uint64_t> facts) {
  const char* before = "";
  for (const uint64_t fact : facts) {
    std::printf("%s%" PRIu64, before, fact);
    before = " ";
  }
}

}  // namespace

const char* name_of(Event event) { return kNames[static_cast<unsigned>(event)]; }

Journal::Journal(uint64_t seed, bool trace, Report* reports)
    : seed_(seed), trace_(trace), report_(reports) {
  *report_ = Report{};
}

// [Fowler, Noll, Vo: FNV-1a], by bytes.
void Journal::mix(uint64_t fact) {
  for (unsigned byte = 0; byte < 8; byte++) {
    report_->hash ^= fact >> 8 * byte & 0xff;
    report_->hash *= 0x100000001b3;
  }
}

void Journal::begin(const char* action, unsigned thread) {
  report_->step++;
  report_->action = action;
  count(Event::step);
  for (const char* at = action; *at != '\0'; at++) mix(static_cast<unsigned char>(*at));
  mix(thread);
  if (!trace_) return;
  std::printf("%*s%" PRIu64 " thread %u: %s\n", indent(), "", step(), thread, action);
}

void Journal::note(std::initializer_list<uint64_t> facts) {
  for (const uint64_t fact : facts) mix(fact);
}

void Journal::note(const char* what, std::initializer_list<uint64_t> facts) {
  note(facts);
  if (!trace_) return;
  std::printf("%*s  %s ", indent(), "", what);
  print(facts);
  std::printf("\n");
}

void Journal::count(Event event, uint64_t number) {
  report_->events[static_cast<unsigned>(event)] += number;
}

void Journal::fail(const char* what, std::initializer_list<uint64_t> facts) const {
  std::printf("seed %" PRIu64 " step %" PRIu64 ": %s", seed_, step(), what);
  if (facts.size() > 0) {
    std::printf(" (");
    print(facts);
    std::printf(")");
  }
  std::printf("; %s%s\n", report_->action, generation_ > 0 ? ", in a forked child" : "");
  std::fflush(stdout);
  _exit(1);
}

void Journal::prepare_child() {
  report_[1] = Report{};
  report_[1].step = step();
  report_[1].action = report_->action;
  std::copy_n(report_->events, kEvents, report_[1].events);
}

void Journal::become_child() {
  report_++;
  generation_++;
}

void Journal::read_child() {
  const Report& child = report_[1];
  demand(child.complete, "the child of a fork did not come to its end", {child.step});
  mix(child.hash);
  for (unsigned i = 0; i < kEvents; i++) {
    report_->of_children[i] += child.events[i] - report_->events[i] + child.of_children[i];
  }
}

}  // namespace near_test
