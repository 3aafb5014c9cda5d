// A server over a long time: block sizes change from phase to phase while the live bytes stay the
// same. How much memory does it need beyond its live bytes?
//
// The phases, in turn: small records; medium documents; a cache of large entries; log buffers that
// grow by realloc until they are shipped; a mix. Each step allocates a part of the live bytes in
// the sizes of its phase, then frees as many bytes: mostly young blocks, some of any age, so that
// old blocks keep pages of every phase half full.
// Invariant: after a step the live bytes are at most LIVE. The result's `curve` has one row for
// each step: [step, live KiB, RSS KiB], where RSS is less its value before; reading is not timed.
// Source: the fragmentation of long-running programs [Johnstone98, Robson77]; the phases are ours.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "own_memory.h"
#include "workload.h"

namespace {

struct Phase {
  size_t low, high;  // sizes; every factor of two is equally likely
  bool grows;        // blocks begin at `low` and double by realloc, to `high` at most
};

constexpr size_t kKib = 1024;
constexpr Phase kPhases[] = {
    {32, 256, false},
    {256, 4 * kKib, false},
    {2 * kKib, 64 * kKib, false},
    {4 * kKib, 256 * kKib, true},
    {32, 64 * kKib, false},
};
constexpr size_t kPhaseCount = sizeof kPhases / sizeof *kPhases;
constexpr size_t kSmallest = 32;

struct Row {
  size_t step, live_kib, rss_kib;
};

class Server {
 public:
  // `peak`: the live bytes at which a step stops allocating; its last block may exceed them.
  Server(workload::Worker& worker, size_t live_limit, size_t peak)
      : worker_(worker), limit_(live_limit), blocks_(peak / kSmallest + 1) {
    for (const Phase& phase : kPhases) sizes_.emplace_back(phase.low, phase.high);
  }

  size_t live() const { return live_; }

  void step(size_t phase, size_t bytes) {
    const size_t young = held_;
    for (size_t allocated = 0; allocated < bytes;) allocated += allocate(phase);
    while (live_ > limit_) release(young);
  }

  void release_all() {
    while (held_ != 0) drop(held_ - 1);
  }

 private:
  size_t allocate(size_t phase) {
    const size_t wanted = sizes_[phase].pick(random_);
    size_t size = kPhases[phase].grows ? kPhases[phase].low : wanted;
    workload::Block block = worker_.allocate(size);
    for (; size < wanted; block = worker_.resize(block, size)) size = std::min(2 * size, wanted);
    blocks_[held_++] = block;
    live_ += size;
    return size;
  }

  // Frees a young block in at least two of three cases, if there is one.
  void release(size_t young) {
    const bool is_young = young < held_ && random_.below(3) != 0;
    drop(is_young ? random_.between(young, held_ - 1) : random_.below(held_));
  }

  void drop(size_t index) {
    live_ -= blocks_[index].size;
    worker_.release(blocks_[index]);
    blocks_[index] = blocks_[--held_];
  }

  workload::Worker& worker_;
  workload::Random random_{1};
  std::vector<workload::Sizes> sizes_;
  size_t limit_;
  workload::Table<workload::Block> blocks_;
  size_t held_ = 0;
  size_t live_ = 0;
};

void summarize(workload::Workload& workload, workload::Table<Row>& rows) {
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  double ratios = 0, peak = 0;
  for (const Row& row : rows) {
    curve.push_back({row.step, row.live_kib, row.rss_kib});
    ratios += static_cast<double>(row.rss_kib) / static_cast<double>(row.live_kib);
    peak = std::max(peak, static_cast<double>(row.rss_kib));
  }
  const Row& last = rows[rows.size() - 1];
  workload.add("final_rss_per_live",
               static_cast<double>(last.rss_kib) / static_cast<double>(last.live_kib));
  workload.add("mean_rss_per_live", ratios / static_cast<double>(rows.size()));
  workload.add("peak_heap_kib", peak);
  workload.add("curve", curve);
}

}  // namespace

int main(int argc, char** argv) {
  size_t live_mib = 128, steps = 500, phase_steps = 20, percent = 20;
  workload::Workload workload("fragmentation_over_time",
                              "holds LIVE MiB in blocks whose sizes change from phase to phase");
  workload.count("--live-mib", live_mib, 24, "bytes held, in MiB");
  workload.count("--steps", steps, 150, "steps");
  workload.count("--phase-steps", phase_steps, 10, "steps of a phase");
  workload.count("--percent", percent, "part of the held bytes that a step replaces");
  workload.parse(argc, argv);
  workload.require(percent <= 100, "--percent is above 100");

  workload::Table<Row> rows(steps);
  const size_t live = live_mib * kKib * kKib;
  workload::Worker worker(0);
  const size_t replaced = live * percent / 100;
  Server server(worker, live, live + replaced);
  const auto before = static_cast<size_t>(own_memory().rss_kib);
  workload.begin();
  double sampling = 0;
  for (size_t step = 0; step < steps; ++step) {
    // The first step fills the heap.
    server.step(step / phase_steps % kPhaseCount, step == 0 ? live : replaced);
    const double asked = workload::now();
    const size_t rss = std::max(before, static_cast<size_t>(own_memory().rss_kib)) - before;
    rows[step] = {step, server.live() / kKib, rss};
    sampling += workload::now() - asked;
  }
  workload.end();
  workload.exclude(sampling);
  server.release_all();
  workload.join(worker);
  summarize(workload, rows);
  return workload.report();
}
