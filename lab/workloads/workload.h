// What the workloads share: options with presets, blocks that detect overlap, threads that start
// together, latencies, the one line of result.
//
// A workload is `int main(argc, argv)` with a Workload: it declares its options (the paper's
// parameters, and a preset that takes two cores a second or two), runs, and prints one JSON line.
// Invariants: equal options give equal work and an equal checksum under every allocator. Each block
// has a stamp of its own, which is written at its allocation and read at its release, so
//   sum of stamps read = sum of stamps written
// unless the allocator let two live blocks share a byte at their ends; a workload that finds the
// sums different reports "verified": false and ends with status 3.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "block.h"
#include "latency.h"
#include "random.h"
#include "table.h"

namespace workload {

double now();  // seconds of the monotonic clock
uint64_t now_ns();
// The time since `start`, an earlier now_ns(), less the time that reading the clock takes.
uint64_t ns_since(uint64_t start);

// Work of a program between its calls, in iterations that the compiler keeps.
inline void spin(size_t iterations) {
  for (size_t i = 0; i < iterations; ++i) asm volatile("");
}

// A barrier: the last thread to arrive calls a function before all go on. std::barrier would
// allocate its state on the heap; this class keeps it inside.
// Invariant: arrived_ threads of this round have arrived. Thread-safety: `threads` threads.
class Meeting {
 public:
  explicit Meeting(size_t threads) : threads_(threads) {}

  template <typename Last>
  void arrive_and_wait(Last last) {
    const int round = round_.load(std::memory_order_relaxed);  // relaxed: it ends after this thread
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {  // pairs: arrivals
      last();
      arrived_.store(0, std::memory_order_relaxed);        // relaxed: published by the round
      round_.store(round + 1, std::memory_order_release);  // pairs: round
      round_.notify_all();
    } else {
      round_.wait(round, std::memory_order_acquire);  // pairs: round
    }
  }

 private:
  const size_t threads_;
  std::atomic<size_t> arrived_{0};
  std::atomic<int> round_{0};
};

// Called by each thread that run() did not start: it is thread `index` of the run. --pin binds it
// to its CPU; --mark excludes its stack from the heap.
void settle(size_t index);

// With --migrate, moves the calling thread to another CPU now.
void move_on();

// False with --stamps off: blocks have no stamps, and no call is timed. Then the checksum is the
// sum of sizes: it shows that the work was done, but not that blocks do not overlap.
extern bool stamps_are_on;

// One thread's access to the allocator: allocates, releases, counts, and times one call in 61. It
// is aligned so that no two threads' counters share a cache line or its neighbour.
class alignas(128) Worker {
 public:
  explicit Worker(size_t id) : next_stamp_(stamp_of(id)) {}

  Block allocate(size_t size) {
    if (!stamps_are_on) {
      written_ += size;
      return {allocated(std::malloc(size), size), size};
    }
    char* const address = is_sampled() ? timed_malloc(size) : allocated(std::malloc(size), size);
    const Block block{address, size};
    written_ += write_stamp(block, next_stamp(size));
    return block;
  }

  // Releases a block of any worker.
  void release(const Block& block) {
    ++operations_;
    if (!stamps_are_on) {
      read_ += block.size;
      std::free(block.address);
      return;
    }
    read_ += read_stamp(block);
    if (is_sampled()) {
      timed_free(block);
    } else {
      std::free(block.address);
    }
  }

  // What the worker did until now was preparation: neither its operations nor its times count.
  void forget() {
    operations_ = 0;
    mallocs_ = reallocs_ = frees_ = {};
  }

  // Calls realloc, checks that it copied the old block's stamp, and writes a new stamp.
  Block resize(const Block& block, size_t size);

 private:
  friend class Workload;
  static constexpr uint64_t kStampStep = 0x9e3779b97f4a7c15;  // stamps do not repeat
  static constexpr uint32_t kSampledOneIn = 61;  // odd: samples both of two alternating calls

  static uint64_t stamp_of(size_t id) { return (id + 1) * 0xd1342543de82ef95; }
  // Includes the size, so that a run with other sizes has another checksum.
  uint64_t next_stamp(size_t size) { return next_stamp_ += kStampStep + size; }
  bool is_sampled() {
    if (--until_sample_ != 0) [[likely]]
      return false;
    until_sample_ = kSampledOneIn;
    return true;
  }
  char* timed_malloc(size_t size);
  void* timed_realloc(const Block& block, size_t size);
  void timed_free(const Block& block);

  uint64_t next_stamp_;
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  uint64_t operations_ = 0;  // an allocation and its release count as one
  uint32_t until_sample_ = kSampledOneIn;
  Latencies mallocs_;
  Latencies reallocs_;
  Latencies frees_;
};

// Replaces a random block of a set by a new one.
inline void replace_one(Worker& worker, Blocks& held, const Sizes& sizes, Random& random) {
  Block& block = held[random.below(held.size())];
  worker.release(block);
  block = worker.allocate(sizes.pick(random));
}

class Workload {
 public:
  Workload(const char* name, const char* description);
  ~Workload();

  // An option whose default is the present `value`, the paper's; the preset `two-cores` sets it to
  // `two_cores`.
  void option(const char* flag, size_t& value, size_t two_cores, const char* description);
  void option(const char* flag, size_t& value, const char* description);
  void option(const char* flag, double& value, const char* description);
  void option(const char* flag, std::string& value, const char* description);
  // An option that must be at least 1, in bytes: 4096, 64KiB, 33KB, 4GiB.
  void bytes(const char* flag, size_t& value, const char* description);
  // An option that must be at least 1.
  void count(const char* flag, size_t& value, size_t two_cores, const char* description);
  void count(const char* flag, size_t& value, const char* description);
  // The options --low and --high: the range of the blocks' sizes.
  void sizes(size_t& low, size_t& high, const char* unit = "bytes");
  // An option whose value is one of `words`.
  void choice(const char* flag, std::string& value, std::vector<std::string> words,
              const char* description);

  // Reads the arguments; ends the program on --help and, with status 2, on a wrong one.
  void parse(int argc, char** argv);
  // Ends the program with status 2 and this message when the options contradict each other.
  void require(bool condition, const char* message) const;

  // Begins the measured region. The limit allocator (bench/limit.c) does not reuse blocks from
  // before it, and needs to know how many threads will allocate at a time.
  void begin(size_t threads = 1);
  void end();
  // How long the measured region took, once it has ended.
  double seconds() const { return seconds_; }
  // Subtracts time of the measured region that was not the workload's work.
  void exclude(double seconds) { seconds_ -= seconds; }

  // Runs body(worker, index) in `threads` threads that start together, as the measured region.
  // Each body may start up to `more` threads at a time.
  template <typename Body>
  void run(size_t threads, Body body, size_t more = 0) {
    run_prepared(
        threads, [](Worker&, size_t index) { return index; },
        [&](Worker& worker, size_t index) { body(worker, index); }, more);
  }

  // Like run(), but each thread first calls prepare(worker, index), before the region; the region
  // measures body(worker, made) on what prepare returned.
  template <typename Prepare, typename Body>
  void run_prepared(size_t threads, Prepare prepare, Body body, size_t more = 0) {
    // The last thread to arrive reads the clock, so the region excludes thread starts and joins.
    Meeting all(threads);
    bool running_now = false;
    const auto turn = [&] {
      running_now ? end() : begin(threads * (1 + more) + 1);
      running_now = true;
    };
    std::mutex joining;
    // Not inlined: a std::thread keeps its function object in a block of the starting thread, which
    // a measured thread should not read.
    const auto part = [&](size_t i) __attribute__((noinline)) {
      settle(i);
      Worker worker(i);  // on this thread's stack, so in memory of its own node
      auto made = prepare(worker, i);
      all.arrive_and_wait(turn);
      body(worker, made);
      all.arrive_and_wait(turn);
      const std::lock_guard one_at_a_time(joining);
      join(worker);
    };
    std::vector<std::thread> running;
    for (size_t i = 0; i < threads; ++i) running.emplace_back([&part, i] { part(i); });
    for (std::thread& thread : running) thread.join();
  }

  // Adds a worker's counts; for workloads that start their own threads. One call at a time.
  void join(const Worker& worker);

  // For a workload that checks its data itself: `words` is the sum over its operations, equal in
  // every run of equal options; `complaint` is the message if `right` is false.
  void prove(uint64_t words, uint64_t operations, bool right, const char* complaint);

  // Adds an entry to the result.
  void add(const char* key, const nlohmann::ordered_json& value);
  void add(const char* key, double value);
  void add(const char* key, uint64_t value);
  void add(const char* key, long value);
  void add(const char* key, const Latencies& value);

  // Prints the result line. Returns main's status: 0, or 3 when a block was overwritten or prove()
  // got a false `right`.
  int report();

 private:
  struct Words;  // the options and the result, which need CLI11 and nlohmann/json

  const char* name_;
  std::unique_ptr<Words> words_;
  double started_ = 0;
  double seconds_ = 0;
  uint64_t written_ = 0;
  uint64_t read_ = 0;
  uint64_t operations_ = 0;
  const char* complaint_ = "a block was not as it was left: blocks overlap";
  Latencies mallocs_;
  Latencies reallocs_;
  Latencies frees_;
};

}  // namespace workload
