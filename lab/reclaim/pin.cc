// What a pin costs: ns of pin, read of a shared pointer and unpin under every scheme here, beside a
// plain read, the same schemes with a fence at every pin, and xenium's. In each round everyone is
// timed once, one after the other; a number is the median of the rounds, and a ratio that of the
// ratios within a round, so that a slow moment of the machine strikes both sides.
// Invariant: the numbers are of one thread that no other thread disturbs; no object is retired.
#include <algorithm>
#include <atomic>
#include <nearmalloc/reclaim/domain.hpp>
#include <nearmalloc/reclaim/schemes.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "pin_subjects.h"

namespace {

namespace reclaim = near::reclaim;
using reclaim_lab::keep;
using reclaim_lab::ns_each;
using reclaim_lab::Subject;

int object;
std::atomic<int*> shared{&object};

double load(size_t times) {
  return ns_each(times, [] {
    keep(shared.load(std::memory_order_acquire));  // pairs: none, nobody writes; as protect() does
  });
}

// Through a handle.
template <typename Scheme, bool kAsymmetric>
double pin(size_t times) {
  reclaim::domain<Scheme> domain(reclaim::options{.asymmetric = kAsymmetric});
  auto handle = domain.attach();
  return ns_each(times, [&] {
    auto guard = handle.pin();
    keep(guard.protect(0, shared));
  });
}

// The pin that finds the thread's handle by itself.
template <typename Scheme>
double implicit(size_t times) {
  reclaim::domain<Scheme> domain;
  return ns_each(times, [&] {
    auto guard = domain.pin();
    keep(guard.protect(0, shared));
  });
}

std::vector<Subject> all_subjects() {
  using Debra = reclaim::debra<>;
  using FreesFirst = reclaim::debra<reclaim::announce::after_free>;
  using Token = reclaim::token<>;
  std::vector<Subject> subjects = {{"load", load},
                                   {"leaky", pin<reclaim::leaky, true>},
                                   {"debra", pin<Debra, true>},
                                   {"debra_implicit", implicit<Debra>},
                                   {"debra_free_first", pin<FreesFirst, true>},
                                   {"debra_fenced", pin<Debra, false>},
                                   {"token", pin<Token, true>},
                                   {"token_implicit", implicit<Token>},
                                   {"token_fenced", pin<Token, false>},
                                   {"hazard_pointers", pin<reclaim::hazard_pointers, true>},
                                   {"hazard_pointers_fenced", pin<reclaim::hazard_pointers, false>},
                                   {"ping_epochs", pin<reclaim::ping_epochs, true>}};
  for (const Subject& subject : reclaim_lab::xenium_subjects()) subjects.push_back(subject);
  return subjects;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using Rounds = std::vector<double>;  // of one subject, in order

Rounds combined(const Rounds& a, const Rounds& b, double (*combine)(double, double)) {
  Rounds result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), combine);
  return result;
}

// The medians, and what the goals are about: pins against the fenced one, and against a plain read.
void report(workload::Workload& workload, const std::vector<Subject>& subjects,
            const std::vector<Rounds>& found) {
  const auto named = [&](std::string_view name) -> const Rounds& {
    const auto is_it = [&](const Subject& subject) { return subject.name == name; };
    const auto at = std::find_if(subjects.begin(), subjects.end(), is_it);
    return found[static_cast<size_t>(at - subjects.begin())];
  };
  const auto ratio = [](double a, double b) { return a / b; };
  const auto more = [](double a, double b) { return a - b; };
  for (size_t i = 0; i < subjects.size(); ++i) {
    const std::string name = subjects[i].name;
    workload.add((name + "_ns").c_str(), median(found[i]));
    workload.add((name + "_of_fenced").c_str(),
                 median(combined(found[i], named("debra_fenced"), ratio)));
    workload.add((name + "_over_load_ns").c_str(), median(combined(found[i], named("load"), more)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t rounds = 9, operations = 1'000'000;
  workload::Workload workload("pin", "one thread pins, reads a shared pointer and unpins");
  workload.count("--rounds", rounds, "a number is the median of so many");
  workload.count("--operations", operations, "pins of each kind in a round");
  workload.parse(argc, argv);

  const std::vector<Subject> subjects = all_subjects();
  std::vector<Rounds> found(subjects.size());
  workload.begin();
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) found[i].push_back(subjects[i].ns(operations));
  }
  workload.end();
  const uint64_t all = rounds * operations * subjects.size();
  workload.join(all, all, true);
  report(workload, subjects, found);
  return workload.report();
}
