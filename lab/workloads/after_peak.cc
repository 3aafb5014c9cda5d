// A server after a peak: threads fill a cache, other threads free most of it in random order, and
// the server goes on at low load. How much memory stays resident?
//
// Every thread fills a part of the cache and then frees most of its neighbour's part. After that it
// wakes every 20 ms and replaces a few of the blocks that are left. The result has RSS at the peak,
// after the frees and after the rest, less the RSS before the fill, which includes the tables.
// Invariants: the tables are resident before the first measurement; the number of replacements
// follows from the options. The rest is not part of the measured time.
// Our own.
#include <chrono>

#include "own_memory.h"
#include "workload.h"

namespace {

constexpr size_t kTickMs = 20;
constexpr size_t kReplaced = 200;  // blocks that a thread replaces in a tick

struct Options {
  size_t threads = 8, megabytes = 320, kept = 5, rest_ms = 6000, low = 16, high = 4096;
};

class Server {
 public:
  explicit Server(const Options& options)
      : options_(options),
        sizes_(options.low, options.high),
        all_(options.threads),
        parts_(options.threads) {
    for (size_t i = 0; i < options.threads; ++i) draw_sizes(parts_[i], i);
    start_ = own_memory();
  }

  void serve(workload::Worker& worker, size_t index) {
    for (workload::Block& block : parts_[index]) block = worker.allocate(block.size);
    all_.arrive_and_wait([&] { full_ = own_memory(); });
    workload::Blocks& neighbour = parts_[(index + 1) % options_.threads];
    workload::Random random(100 + index);
    thin(worker, neighbour, random);
    all_.arrive_and_wait([&] {
      freed_ = own_memory();
      live_ = live();
      rest_began_ = workload::now();
    });
    rest(worker, neighbour, random);
    all_.arrive_and_wait([&] {
      rested_ = own_memory();
      rest_s_ = workload::now() - rest_began_;
    });
    for (const workload::Block& block : neighbour) worker.release(block);
  }

  void add_to(workload::Workload& workload) const {
    workload.exclude(rest_s_);
    workload.add("live_kib", static_cast<double>(live_) / 1024);
    workload.add("heap_full_kib", full_.rss_kib - start_.rss_kib);
    workload.add("heap_freed_kib", freed_.rss_kib - start_.rss_kib);
    workload.add("heap_rested_kib", rested_.rss_kib - start_.rss_kib);
  }

 private:
  void draw_sizes(workload::Blocks& part, size_t index) {
    const size_t total = options_.megabytes * 1'000'000 / options_.threads;
    workload::Random random(index + 1);
    part.reserve(total / options_.low + 1);
    for (size_t sum = 0; sum < total; sum += part.back().size) {
      part.push_back({nullptr, sizes_.pick(random)});
    }
  }

  // Frees the blocks in random order, except `kept` percent.
  void thin(workload::Worker& worker, workload::Blocks& part, workload::Random& random) const {
    for (size_t i = part.size(); i > 1; --i) std::swap(part[i - 1], part[random.below(i)]);
    size_t kept = 0;
    for (const workload::Block& block : part) {
      if (random.below(100) < options_.kept) {
        part[kept++] = block;
      } else {
        worker.release(block);
      }
    }
    part.resize(kept);
  }

  void rest(workload::Worker& worker, workload::Blocks& part, workload::Random& random) const {
    auto wake = std::chrono::steady_clock::now();
    for (size_t slept = 0; slept < options_.rest_ms; slept += kTickMs) {
      wake += std::chrono::milliseconds(kTickMs);
      std::this_thread::sleep_until(wake);
      for (size_t i = 0; i < kReplaced && !part.empty(); ++i) {
        workload::replace_one(worker, part, sizes_, random);
      }
    }
  }

  size_t live() const {
    size_t sum = 0;
    for (const workload::Blocks& part : parts_) {
      for (const workload::Block& block : part) sum += block.size;
    }
    return sum;
  }

  const Options options_;
  const workload::Sizes sizes_;
  workload::Meeting all_;
  std::vector<workload::Blocks> parts_;  // part i is filled by thread i, then held by thread i - 1
  struct memory_use start_ = {}, full_ = {}, freed_ = {}, rested_ = {};
  size_t live_ = 0;
  double rest_began_ = 0, rest_s_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  workload::Workload workload("after_peak", "frees most of a full cache and goes on at low load");
  workload.count("--threads", options.threads, "threads");
  workload.count("--megabytes", options.megabytes, 80, "size of the full cache, 10^6 bytes");
  workload.option("--kept", options.kept, "blocks that are not freed, in percent");
  workload.option("--rest", options.rest_ms, 2000, "how long the low load lasts, in ms");
  workload.sizes(options.low, options.high);
  workload.parse(argc, argv);
  workload.require(options.kept <= 100, "--kept is above 100");

  Server server(options);
  workload.run(options.threads,
               [&](workload::Worker& worker, size_t index) { server.serve(worker, index); });
  server.add_to(workload);
  return workload.report();
}
