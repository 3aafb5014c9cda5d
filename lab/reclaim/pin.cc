// The cost of a pin: ns of pin, read of a shared pointer and unpin under every scheme here. For
// comparison it times a plain read, a bare handshake with a fence and without, the same schemes
// with a fence at every pin, and xenium's. Each round times every subject once, one after the
// other. A number is the median of the rounds, and a ratio is the median of the ratios within a
// round, so that a slow moment of the machine affects both sides; `best` has each subject's
// shortest time. `goals` has the library's goals: DEBRA's pin against its fenced one, and the
// token's check against a read.
// Invariant: times are CPU times of one thread; no object is retired.
#include <algorithm>
#include <atomic>
#include <nearmalloc/reclaim/domain.hpp>
#include <nearmalloc/reclaim/schemes.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "pin_subjects.h"
#include "workload.h"

namespace {

namespace reclaim = near::reclaim;
using reclaim_lab::keep;
using reclaim_lab::ns_each;
using reclaim_lab::Subject;

int object;
std::atomic<int*> shared{&object};

double load(size_t times) {
  return ns_each(times, [] {
    keep(shared.load(std::memory_order_acquire));  // pairs: none, no thread writes; as protect()
  });
}

// The least work of an announcement: a store, a fence or none, a load, a store.
template <bool kAsymmetric>
double handshake(size_t times) {
  std::atomic<int> word{0};
  return ns_each(times, [&] {
    word.store(1, std::memory_order_relaxed);  // relaxed: no other thread reads it
    near::light_fence(kAsymmetric);
    keep(shared.load(std::memory_order_acquire));  // pairs: none, as in `load`
    word.store(0, std::memory_order_release);      // pairs: none, as in `load`
  });
}

// Pins through a handle.
template <typename Scheme, bool kAsymmetric>
double pin(size_t times) {
  reclaim::domain<Scheme> domain(reclaim::options{.asymmetric = kAsymmetric});
  auto handle = domain.attach();
  return ns_each(times, [&] {
    auto guard = handle.pin();
    keep(guard.protect(0, shared));
  });
}

// Pins while another thread keeps the token, as for most operations among many threads.
double token_elsewhere(size_t times) {
  reclaim::domain<reclaim::token<>> domain;
  auto handle = domain.attach();
  auto other = domain.attach();
  const auto holder = other.pin();
  return ns_each(times, [&] {
    auto guard = handle.pin();
    keep(guard.protect(0, shared));
  });
}

// Pins by domain.pin(), which looks up the thread's handle.
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
                                   {"handshake", handshake<true>},
                                   {"handshake_fenced", handshake<false>},
                                   {"leaky", pin<reclaim::leaky, true>},
                                   {"debra", pin<Debra, true>},
                                   {"debra_implicit", implicit<Debra>},
                                   {"debra_free_first", pin<FreesFirst, true>},
                                   {"debra_fenced", pin<Debra, false>},
                                   {"checkpoints", pin<reclaim::checkpoints, true>},
                                   {"token", token_elsewhere},
                                   {"token_alone", pin<Token, true>},
                                   {"token_implicit", implicit<Token>},
                                   {"token_alone_fenced", pin<Token, false>},
                                   {"hazard_pointers", pin<reclaim::hazard_pointers, true>},
                                   {"hazard_pointers_fenced", pin<reclaim::hazard_pointers, false>},
                                   {"ping_epochs", pin<reclaim::ping_epochs, true>},
                                   {"ibr", pin<reclaim::ibr, true>},
                                   {"hyaline", pin<reclaim::hyaline, true>}};
  for (const Subject& subject : reclaim_lab::xenium_subjects()) subjects.push_back(subject);
  return subjects;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The times: one number for each subject and round.
class Times {
 public:
  explicit Times(std::vector<Subject> subjects) : subjects_(std::move(subjects)) {
    rounds_.resize(subjects_.size());
  }

  size_t subjects() const { return subjects_.size(); }

  void time_each(size_t operations) {
    for (size_t i = 0; i < subjects_.size(); ++i) rounds_[i].push_back(subjects_[i].ns(operations));
  }

  void report(workload::Workload& workload) const {
    const auto ratio = [](double a, double b) { return a / b; };
    const auto more = [](double a, double b) { return a - b; };
    for (size_t i = 0; i < subjects_.size(); ++i) {
      const std::string name = subjects_[i].name;
      workload.add((name + "_ns").c_str(), median(rounds_[i]));
      workload.add((name + "_of_fenced").c_str(), against(name, "debra_fenced", ratio));
      workload.add((name + "_over_load_ns").c_str(), against(name, "load", more));
    }
    workload.add("best", best());
    const double of_fenced = against("debra", "debra_fenced", ratio);
    const double over_load = against("token", "load", more);
    workload.add("goals", {{"debra_of_fenced", {{"is", of_fenced}, {"at_most", 0.2}}},
                           {"token_over_load_ns", {{"is", over_load}, {"at_most", 1.0}}}});
  }

 private:
  nlohmann::ordered_json best() const {
    nlohmann::ordered_json found;
    for (size_t i = 0; i < subjects_.size(); ++i) {
      found[subjects_[i].name] = *std::min_element(rounds_[i].begin(), rounds_[i].end());
    }
    return found;
  }

  const std::vector<double>& of(std::string_view name) const {
    const auto is_it = [&](const Subject& subject) { return subject.name == name; };
    const auto at = std::find_if(subjects_.begin(), subjects_.end(), is_it);
    return rounds_[static_cast<size_t>(at - subjects_.begin())];
  }

  double against(std::string_view name, std::string_view other,
                 double (*combine)(double, double)) const {
    std::vector<double> both(of(name).size());
    std::transform(of(name).begin(), of(name).end(), of(other).begin(), both.begin(), combine);
    return median(both);
  }

  std::vector<Subject> subjects_;
  std::vector<std::vector<double>> rounds_;
};

}  // namespace

int main(int argc, char** argv) {
  size_t rounds = 9, operations = 1'000'000;
  workload::Workload workload("pin", "one thread pins, reads a shared pointer and unpins");
  workload.count("--rounds", rounds, "a number is the median of so many");
  workload.count("--operations", operations, "pins of each kind in a round");
  workload.parse(argc, argv);

  Times times(all_subjects());
  workload.begin();
  for (size_t round = 0; round < rounds; ++round) times.time_each(operations);
  workload.end();
  const uint64_t all = rounds * operations * times.subjects();
  workload.prove(all, all, true, "");
  times.report(workload);
  return workload.report();
}
