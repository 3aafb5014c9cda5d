// One point of a curve: threads hold LIVE bytes of blocks and replace them. Each way in which
// programs differ is an option: size, live bytes, threads, idle threads, order of releases, share
// of releases by another thread, their batch, growth by realloc, number of sizes, bands of sizes.
// What does a replacement cost, and how much memory is resident?
//
// Memory is warm when the clock starts: every thread has filled its part, and has replaced a
// quarter as many blocks as it will replace. All pages of a block are written. Results in KiB:
// `asked` (live bytes after the fill); `heap_full`, `heap_steady` and `heap_peak` (after the fill,
// after the replacements, at most); `heap_rested`, `kept` and `kept_pages` (after --free and
// --settle: the heap, live bytes, pages that hold a part of a live block). The heap is RSS and page
// tables, less those before the first block, less what became resident of the tables of blocks.
// Invariant: equal options give equal work; idle threads sleep from the fill to the end. Our own;
// plans/sweep.toml has the curves.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <filesystem>

#include "own_memory.h"
#include "sweep_part.h"

namespace {

using workload::Order;

struct Options {
  size_t size = 64, smallest = 16, sizes = 1, bands = 1;
  std::string sizes_from, order = "random", huge_pages = "machine";
  size_t live = size_t{64} << 20, threads = 1, idle = 0, batch = 1, work_ms = 60;
  double remote = 0, grow = 0;
  size_t free_percent = 0, settle_ms = 0;
};

constexpr size_t kMiB = size_t{1} << 20, kPage = 4096;
constexpr size_t kMostSizes = 1000;
constexpr size_t kMostBandsOfFile = 16;
constexpr size_t kIdleLargest = 32768;  // largest size that idle threads touched

void parse(workload::Workload& workload, Options& to, int argc, char** argv) {
  workload.bytes("--size", to.size, "size of the blocks; of several sizes, the largest");
  workload.bytes("--smallest", to.smallest, "smallest of several sizes; where growth begins");
  workload.count("--sizes", to.sizes, "distinct sizes, equally likely and far apart");
  workload.option("--sizes-from", to.sizes_from,
                  "a file of sizes with weights, in their place; a name: one of lab/sizes");
  workload.count("--bands", to.bands, "parts of the sizes that are used one after the other");
  workload.bytes("--live", to.live, "bytes that all threads hold together");
  workload.count("--threads", to.threads, "threads that replace blocks");
  workload.option("--idle", to.idle, "more threads: they touch all sizes, free all, and sleep");
  workload.choice("--order", to.order, {"lifo", "fifo", "random", "phases"},
                  "what is released: newest, oldest, random, or all blocks and then none");
  workload.option("--remote", to.remote, "share of the releases by another thread, 0 to 1");
  workload.count("--batch", to.batch, "blocks released, or handed to the other thread, at a time");
  workload.option("--grow", to.grow, "factor by which realloc grows a block to its size; 0: none");
  workload.count("--work", to.work_ms, "about how long replacements take, in ms");
  workload.option("--free", to.free_percent, "percent of the blocks that are freed at the end");
  workload.option("--settle", to.settle_ms, "how long it sleeps then, in ms");
  workload.choice("--huge-pages", to.huge_pages, {"machine", "off"}, "off: for this process");
  workload.parse(argc, argv);
  workload.require(to.size <= 1024 * kMiB, "--size is above 1 GiB");
  workload.require(to.sizes <= kMostSizes, "--sizes is above 1000");
  workload.require(to.sizes == 1 || to.smallest <= to.size, "--smallest is above --size");
  workload.require(to.bands <= (to.sizes_from.empty() ? to.sizes : kMostBandsOfFile),
                   "--bands is above --sizes, or above 16 with --sizes-from");
  workload.require(to.remote >= 0 && to.remote <= 1, "--remote is not between 0 and 1");
  workload.require(to.remote == 0 || to.threads > 1, "--remote needs --threads of at least 2");
  workload.require(to.grow == 0 || (to.grow > 1 && to.grow <= 16),
                   "--grow is neither 0 nor above 1 and at most 16");
  workload.require(to.free_percent <= 100, "--free is above 100");
  workload.require(to.live >= to.threads, "--live is below --threads");
}

// About how many nanoseconds it takes to replace a block of this size, on a machine of 2024.
double cost_of_one(const Options& options, double size) {
  // Pages of large blocks are those of memory that the allocator took from the system just now.
  constexpr double kCall = 80, kMiss = 300, kTouch = 40, kFault = 150, kByteCopied = 0.1;
  const double pages = std::floor(size / kPage), kept = std::min(pages, 256.0);
  double cost = kCall + kTouch * kept + kFault * (pages - kept);
  if (options.order == "random" && options.live > 4 * kMiB) cost += kMiss;
  if (options.remote > 0) cost += kMiss;
  if (options.grow > 1 && size > static_cast<double>(options.smallest)) {
    const double steps =
        std::log(size / static_cast<double>(options.smallest)) / std::log(options.grow);
    cost += steps * kCall + size * options.grow / (options.grow - 1) * kByteCopied;
  }
  return cost;
}

// Replacements by each thread, so that two processors work for about --work. The options alone
// decide it, because the work must be equal under every allocator.
size_t replacements(const Options& options, const workload::SizeMix& mix) {
  double cost = 0;
  for (size_t band = 0; band < options.bands; ++band) {
    cost += cost_of_one(options, mix.mean(band)) / static_cast<double>(options.bands);
  }
  const double all = static_cast<double>(options.work_ms) * 1e6 / cost *
                     static_cast<double>(std::min<size_t>(options.threads, 2));
  return std::max<size_t>(1, static_cast<size_t>(all / static_cast<double>(options.threads)));
}

// The file of a distribution: a name without a slash is one of the lab's.
std::string distribution(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path().parent_path() / "sizes" / name).string();
}

Order order_of(const std::string& word) {
  if (word == "lifo") return Order::kLifo;
  if (word == "fifo") return Order::kFifo;
  return word == "random" ? Order::kRandom : Order::kPhases;
}

// The resident bytes of a table's memory.
size_t resident(const workload::Blocks& table) {
  constexpr size_t kChunk = 4096;  // pages
  std::array<unsigned char, kChunk> pages;
  const auto start = reinterpret_cast<uintptr_t>(table.data());
  const uintptr_t end = start + table.capacity() * sizeof(workload::Block);
  size_t found = 0;
  for (uintptr_t at = start; at < end; at += kChunk * kPage) {
    const size_t bytes = std::min(end - at, kChunk * kPage);
    if (mincore(reinterpret_cast<void*>(at), bytes, pages.data()) != 0) continue;
    for (size_t i = 0; i * kPage < bytes; ++i) found += (pages[i] & 1) * kPage;
  }
  return found;
}

// How many pages hold a part of a live block.
size_t pages_of(const std::vector<workload::SweepPart*>& parts) {
  workload::Table<uintptr_t> pages;
  for (const workload::SweepPart* part : parts) {
    for (const workload::Block& block : part->table()) {
      const auto first = reinterpret_cast<uintptr_t>(block.address);
      const uintptr_t last = first + block.size - 1;
      for (uintptr_t page = first / kPage; page <= last / kPage; ++page) pages.push_back(page);
    }
  }
  std::sort(pages.begin(), pages.end());
  return static_cast<size_t>(std::unique(pages.begin(), pages.end()) - pages.begin());
}

// Touches every size as a thread of a pool does, frees everything.
void touch_all_sizes(workload::Worker& worker) {
  constexpr size_t kOfEach = 4;
  workload::Blocks held;
  for (size_t size = 16; size <= kIdleLargest; size += std::max<size_t>(16, size / 8)) {
    for (size_t n = 0; n < kOfEach; ++n) held.push_back(worker.allocate(size));
  }
  for (const workload::Block& block : held) worker.release(block);
}

class Sweep {
 public:
  Sweep(workload::Workload& workload, const Options& options, const workload::SizeMix& mix)
      : workload_(workload),
        options_(options),
        shape_{mix,
               options.live / options.threads,
               order_of(options.order),
               options.remote,
               options.batch,
               options.grow,
               options.smallest,
               options.bands},
        replacements_(replacements(options, mix)),
        everyone_(options.threads + options.idle),
        working_(options.threads),
        parts_(options.threads) {
    if (options.remote > 0) {
      for (size_t i = 0; i < options.threads; ++i) channels_.emplace_back(options.batch);
    }
  }

  void run() {
    std::vector<std::thread> running;
    running.reserve(options_.threads + options_.idle);
    for (size_t i = 0; i < options_.threads; ++i) running.emplace_back([this, i] { work(i); });
    for (size_t i = 0; i < options_.idle; ++i) running.emplace_back([this, i] { idle(i); });
    for (std::thread& thread : running) thread.join();
  }

 private:
  void work(size_t index);
  void idle(size_t index);
  void start();
  double heap_kib() const;
  size_t tables_kib() const;
  void add_full(uint64_t filled_ns);
  void add_steady();
  void rest();
  size_t live() const;
  void join(workload::Worker& worker) {
    const std::lock_guard one_at_a_time(joining_);
    workload_.join(worker);
  }

  workload::Workload& workload_;
  const Options& options_;
  const workload::SweepShape shape_;
  const size_t replacements_;
  std::deque<workload::Channel> channels_;  // i: from thread i to the next one
  workload::Meeting everyone_;
  workload::Meeting working_;
  std::vector<workload::SweepPart*> parts_;
  std::atomic<bool> over_{false};
  std::mutex joining_;
  struct memory_use before_{};
  size_t tables_before_ = 0;  // KiB
  uint64_t filled_from_ = 0;
};

void Sweep::work(size_t index) {
  workload::settle(index);
  workload::Worker worker(index), closing(options_.threads + index);
  workload::Channel* const out = channels_.empty() ? nullptr : &channels_[index];
  workload::Channel* const in =
      channels_.empty() ? nullptr : &channels_[(index + options_.threads - 1) % options_.threads];
  workload::SweepPart part(worker, shape_, index, out, in);
  parts_[index] = &part;
  everyone_.arrive_and_wait([&] { start(); });
  everyone_.arrive_and_wait([&] { filled_from_ = workload::now_ns(); });
  part.fill();
  working_.arrive_and_wait([&] { add_full(workload::now_ns() - filled_from_); });
  part.warm_up(replacements_ / 4);
  worker.forget();
  working_.arrive_and_wait([&] { workload_.begin(options_.threads + 1); });
  part.replace(replacements_);
  working_.arrive_and_wait([&] {
    workload_.end();
    add_steady();
  });
  part.free_share(options_.free_percent, closing);
  working_.arrive_and_wait([&] { rest(); });
  part.free_share(100, closing);
  closing.forget();  // these releases are not in the region
  join(worker);
  join(closing);
  working_.arrive_and_wait([&] {
    over_.store(true, std::memory_order_release);  // pairs: end of sweep
    over_.notify_all();
  });
}

void Sweep::idle(size_t index) {
  workload::settle(options_.threads + index);
  workload::Worker worker(2 * options_.threads + index);
  everyone_.arrive_and_wait([&] { start(); });
  touch_all_sizes(worker);
  everyone_.arrive_and_wait([&] { filled_from_ = workload::now_ns(); });
  over_.wait(false, std::memory_order_acquire);  // pairs: end of sweep
  worker.forget();
  join(worker);
}

// All stacks and tables exist, and no block.
void Sweep::start() {
  const int peak = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (peak >= 0) {
    if (write(peak, "5", 1) != 1) std::perror("the peak before the first block counts");
    close(peak);
  }
  tables_before_ = tables_kib();
  before_ = own_memory();
}

size_t Sweep::tables_kib() const {
  size_t bytes = 0;
  for (const workload::SweepPart* part : parts_) bytes += resident(part->table());
  for (const workload::Channel& channel : channels_) bytes += resident(channel.table());
  return bytes / 1024;
}

double Sweep::heap_kib() const {
  const struct memory_use now = own_memory();
  const long heap = now.rss_kib + now.pte_kib - before_.rss_kib - before_.pte_kib;
  return static_cast<double>(heap - static_cast<long>(tables_kib() - tables_before_));
}

size_t Sweep::live() const {
  size_t sum = 0;
  for (const workload::SweepPart* part : parts_) sum += part->live();
  return sum;
}

void Sweep::add_full(uint64_t filled_ns) {
  const double heap = heap_kib(), asked = static_cast<double>(live()) / 1024;
  workload_.add("asked_kib", asked);
  workload_.add("heap_full_kib", heap);
  workload_.add("heap_per_byte", heap / asked);
  workload_.add("fill_ns", filled_ns);
}

void Sweep::add_steady() {
  const double steady = heap_kib();
  const struct memory_use now = own_memory();
  const auto tables = static_cast<long>(tables_kib() - tables_before_);
  const long peak = now.hwm_kib + now.pte_kib - before_.rss_kib - before_.pte_kib - tables;
  workload_.add("heap_steady_kib", steady);
  workload_.add("heap_peak_kib", std::max(steady, static_cast<double>(peak)));
}

void Sweep::rest() {
  if (options_.free_percent == 0 && options_.settle_ms == 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.settle_ms));
  workload_.add("heap_rested_kib", heap_kib());
  workload_.add("kept_kib", static_cast<double>(live()) / 1024);
  workload_.add("kept_pages_kib", static_cast<uint64_t>(pages_of(parts_) * kPage / 1024));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  workload::Workload workload("sweep",
                              "replaces blocks: a point of a curve of sizes, threads, ...");
  parse(workload, options, argc, argv);
  if (options.huge_pages == "off" && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
    workload.require(false, "--huge-pages off: the kernel refuses it");
  }
  std::string problem;
  const workload::SizeMix mix =
      options.sizes_from.empty()
          ? workload::SizeMix(options.smallest, options.size, options.sizes, options.bands)
          : workload::SizeMix(distribution(options.sizes_from), options.bands, problem);
  workload.require(problem.empty(), problem.c_str());

  Sweep sweep(workload, options, mix);
  sweep.run();
  return workload.report();
}
