// A mutator with chosen sizes, lifetimes, sharing and locality, after ACDC.
//
// Time is logical: in each quantum a thread allocates QUANTUM bytes in sets. A set's size exponent
// c and liveness l are uniformly random, and so is its object size in [2^c, 2^(c+1)). It has
// (S - c + 1)^2 (L - l + 1)^2 objects (S = --max-exponent, L = --liveness-high); the last set of a
// quantum is cut. Once a quantum its thread reads it or, if it is shared, all threads do; the last
// reader in its last quantum frees it, so with T threads a free is remote with probability 1 - 1/T.
// The quanta begin at a barrier, and waiting there is not timed. The result has the ns of all
// threads in malloc, access and free, and the RSS less the tables, at each barrier after 2L quanta
// (acdc_set.h has the links; acdc_thread.h says what is timed).
// Invariant: a set is freed once, by its last reader.
// Source: [Aigner13]; parameters of [Aigner15]: the defaults are the producer-consumer run (§7.3).
// Object sizes (§7.5): --min-exponent X --max-exponent X+2 --liveness-high 1 --shared 0 --quantum
// 1024*2^X --threads 40. Locality (§7.6): --max-exponent 5 --liveness-high 10 --shared 0
// --threads 1 --list-percent 0..100; its figure shows the access time.
#include <barrier>

#include "acdc_thread.h"
#include "own_memory.h"

namespace {

constexpr size_t kSamples = 100;
constexpr size_t kIntervalBytes = size_t{64} << 20;

// Samples RSS at the barriers after the first 2L quanta; if there are many, at kSamples to
// 2 kSamples of them. Thread-safety: the thread that all others wait for.
class Resident {
 public:
  Resident(size_t first, size_t quanta)
      : first_(first), step_(std::max<size_t>(1, quanta / kSamples)) {}

  void sample() {
    const size_t barrier = barrier_++;
    if (barrier < first_ || (barrier - first_) % step_ != 0) return;
    const double asked = workload::now();
    sum_kib_ += static_cast<double>(own_memory().rss_kib);
    seconds_ += workload::now() - asked;
    ++samples_;
  }
  double seconds() const { return seconds_; }  // how long all threads waited for the samples
  size_t samples() const { return samples_; }
  double mean_kib() const { return samples_ == 0 ? 0 : sum_kib_ / static_cast<double>(samples_); }

 private:
  size_t first_, step_, barrier_ = 0, samples_ = 0;
  double sum_kib_ = 0, seconds_ = 0;
};

void add_results(workload::Workload& workload, const acdc::Options& options,
                 const acdc::Totals& totals, const Resident& resident, size_t metadata) {
  const auto threads = static_cast<double>(options.threads);
  const auto allocator_ns = static_cast<double>(totals.allocation_ns + totals.deallocation_ns);
  const double rss = resident.mean_kib() - static_cast<double>(metadata) / 1024;
  workload.add("allocation_ns", totals.allocation_ns);
  workload.add("access_ns", totals.access_ns);
  workload.add("deallocation_ns", totals.deallocation_ns);
  workload.add("allocator_ns_per_thread", allocator_ns / threads);
  workload.add("allocator_ns_per_object", allocator_ns / static_cast<double>(totals.objects));
  workload.add("acdc_rss_kib", resident.samples() == 0 ? 0 : rss);
  workload.add("acdc_rss_kib_per_thread", resident.samples() == 0 ? 0 : rss / threads);
  workload.add("rss_samples", resident.samples());
  workload.add("bytes", totals.bytes);
  workload.add("sets", totals.sets);
  workload.add("lists", totals.lists);
  workload.add("smallest", totals.smallest);
  workload.add("largest", totals.largest);
  workload.add("remote_frees", totals.remote_frees);
  workload.add("damaged_sets", totals.damaged_sets);
}

// The object sizes of [Aigner15 §7.5]: in [2^interval, 2^(interval + 2)), 2^interval KiB a quantum,
// all private and freed in the next quantum. Small objects get more quanta, so that each thread
// allocates at least kIntervalBytes, enough to measure.
void use_interval(acdc::Options& options, size_t interval) {
  options.min_exponent = interval;
  options.max_exponent = interval + 2;
  options.liveness_low = options.liveness_high = 1;
  options.shared_percent = 0;
  options.quantum = size_t{1024} << interval;
  options.cycles = std::max(options.cycles, kIntervalBytes / options.quantum);
}

}  // namespace

int main(int argc, char** argv) {
  acdc::Options options;
  size_t interval = 0;
  workload::Workload workload("acdc",
                              "allocates, reads and frees sets of objects that threads share");
  workload.count("--threads", options.threads, "threads");
  workload.count("--min-exponent", options.min_exponent, "sizes begin at 2^this");
  workload.count("--max-exponent", options.max_exponent, "sizes end below 2^this");
  workload.count("--liveness-low", options.liveness_low, "fewest quanta a set lives");
  workload.count("--liveness-high", options.liveness_high, "most quanta a set lives");
  workload.count("--quantum", options.quantum, "bytes a thread allocates in a quantum");
  workload.count("--cycles", options.cycles, 100, "quanta");
  workload.option("--list-percent", options.list_percent, "sets that are lists, the rest trees");
  workload.option("--shared", options.shared_percent, "percent of the sets that all threads read");
  workload.option("--interval", interval, "0, or X: sizes of [2^X, 2^(X+2)), 2^X KiB a quantum");
  workload.parse(argc, argv);
  workload.require(interval <= 24, "--interval is above 24");
  if (interval != 0) use_interval(options, interval);
  options.check(workload);

  std::vector<acdc::Thread> threads;
  threads.reserve(options.threads);
  size_t metadata = 0;
  for (size_t id = 0; id < options.threads; ++id)
    metadata += threads.emplace_back(options, id).metadata_bytes();
  // RSS is not sampled at the beginning of the first 2L quanta.
  Resident resident(2 * options.liveness_high, options.cycles);
  std::barrier quantum_begins(static_cast<std::ptrdiff_t>(options.threads),
                              [&]() noexcept { resident.sample(); });
  workload.run(options.threads, [&](workload::Worker& worker, size_t id) {
    for (size_t quantum = 0; quantum < options.cycles; ++quantum) {
      threads[id].allocate(worker, quantum);
      quantum_begins.arrive_and_wait();
      threads[id].read_and_free(worker, threads, quantum);
    }
  });
  workload.exclude(resident.seconds());
  acdc::Totals totals{};
  for (const acdc::Thread& thread : threads) totals.add(thread.totals());
  add_results(workload, options, totals, resident, metadata);
  return workload.report();
}
