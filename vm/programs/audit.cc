// Where blocks lie: pinned threads allocate, free for each other, resize and reuse; the kernel says
// of every page of every live block on which node it is.
//
// Run in a guest with several nodes (numa) under any allocator. All live blocks are audited
// (audit_pages.h) after each round, while all threads wait, and when threads have ended. With
// --generations threads end and others begin, on other processors: they free what was left, and
// take over heaps and spans; in every second generation there are half as many, so that spans of
// parked heaps are adopted. Prints one JSON object with the sums over all audits.
// Invariant: the home of a block is the node that --homes gives for the processor of the thread
// that allocated it.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "audit_pages.h"

namespace {

using namespace numa_guest;

constexpr size_t kMostThreads = 64;
constexpr size_t kMostBlocks = size_t{1} << 16;  // of one thread

// Where threads run.
struct Seat {
  int cpu;
  int home;
};

// What a thread has and passes on to the thread that replaces it; where it runs.
struct Worker {
  size_t index;
  Seat seat;
  Block* blocks;
  size_t count;
  uint64_t random;
};

struct Options {
  size_t bytes = size_t{8} << 20;  // that a thread keeps alive
  size_t rounds = 3;
  size_t generations = 1;
  int only = kNone;  // threads of this home alone, if any
};

Options options;
std::array<Seat, kMostThreads> seats;
std::array<Worker, kMostThreads> workers;
size_t worker_count = 0;
size_t step = 1;  // one place in `step` has a thread, in this generation
pthread_barrier_t all_threads;
Audit* audit = nullptr;

// Keeps a block that was just allocated.
void keep(Worker& worker, void* address, size_t size) {
  if (worker.count == kMostBlocks) fail(1, "too many blocks");
  const auto mark = static_cast<unsigned char>(worker.index + 1);
  worker.blocks[worker.count++] = marked(address, size, worker.seat.home, mark);
}

// Grows and shrinks a block by realloc, and uses it between the two.
void keep_resized(Worker& worker, size_t first, size_t second) {
  void* const small = std::malloc(first);
  if (small == nullptr) fail(1, "out of memory");
  std::memset(small, 0, first);
  keep(worker, std::realloc(small, second), second);
}

// Blocks of all kinds of sizes, until the thread has its bytes; first a huge one, half of them.
void allocate(Worker& worker) {
  static constexpr size_t kSmall[] = {16, 24, 48, 100, 256, 1000};
  static constexpr size_t kMedium[] = {2048, 5000, 16'384, 30'000};
  static constexpr size_t kLarge[] = {70'000, 300'000, size_t{1} << 20};
  if (worker.count == 0) keep(worker, std::malloc(options.bytes / 2), options.bytes / 2);
  size_t bytes = 0;
  for (size_t i = 0; i < worker.count; ++i) bytes += worker.blocks[i].size;
  while (bytes < options.bytes) {
    const size_t before = worker.count;
    for (const size_t size : kSmall) {
      for (int i = 0; i < 40; ++i) keep(worker, std::malloc(size), size);
    }
    for (const size_t size : kMedium) keep(worker, std::malloc(size), size);
    const size_t large = kLarge[next_random(worker.random) % 3];
    keep(worker, std::malloc(large), large);
    keep(worker, std::calloc(3, 1000), 3000);
    const size_t alignment = size_t{64} << next_random(worker.random) % 12;
    keep(worker, std::aligned_alloc(alignment, alignment), alignment);
    keep_resized(worker, 100, 20'000);
    keep_resized(worker, 400'000, 90'000);
    for (size_t i = before; i < worker.count; ++i) bytes += worker.blocks[i].size;
  }
}

void audit_all() {
  for (size_t i = 0; i < worker_count; ++i) {
    std::for_each_n(workers[i].blocks, workers[i].count,
                    [](const Block& block) { audit->add(block); });
  }
  audit->finish();
}

// All threads wait while one thread audits.
void audit_together() {
  if (pthread_barrier_wait(&all_threads) == PTHREAD_BARRIER_SERIAL_THREAD) audit_all();
  pthread_barrier_wait(&all_threads);
}

// Frees blocks of the thread across, and of the workers after it that have no thread now.
void free_across(Worker& worker, size_t round) {
  const size_t places = (worker_count + step - 1) / step;
  const size_t across = (worker.index / step + places / 2 + round) % places * step;
  const size_t end = std::min(across + step, worker_count);
  for (size_t i = across; i < end; ++i) {
    workers[i].count = free_half(workers[i].blocks, workers[i].count, worker.random);
  }
}

// A thread: allocates, then again and again frees what others have and allocates anew.
void* work(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  allocate(worker);
  for (size_t round = 0; round < options.rounds; ++round) {
    audit_together();
    free_across(worker, round);
    pthread_barrier_wait(&all_threads);
    allocate(worker);
  }
  return nullptr;
}

pthread_t start(Worker& worker) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(worker.seat.cpu), &here);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t thread;
  if (pthread_attr_setaffinity_np(&attributes, sizeof here, &here) != 0 ||
      pthread_create(&thread, &attributes, work, &worker) != 0) {
    fail(1, "a thread cannot be started on its processor");
  }
  pthread_attr_destroy(&attributes);
  return thread;
}

void run_generation(size_t generation) {
  std::array<pthread_t, kMostThreads> threads{};
  step = generation % 2 + 1;
  const size_t running = (worker_count + step - 1) / step;
  pthread_barrier_init(&all_threads, nullptr, static_cast<unsigned>(running));
  for (size_t i = 0; i < worker_count; i += step) {
    workers[i].seat = seats[(i + generation) % worker_count];
    threads[i] = start(workers[i]);
  }
  for (size_t i = 0; i < worker_count; i += step) pthread_join(threads[i], nullptr);
  pthread_barrier_destroy(&all_threads);
  audit_all();
}

void report() {
  const near_stats stats = allocator_stats();
  std::printf("{\"threads\": %zu, ", worker_count);
  audit->print();
  std::printf(
      ", \"nodes\": %lu, \"spills\": %lu, \"bind_refused\": %lu, \"rehomes\": %lu, "
      "\"adoptions\": %lu}\n",
      static_cast<unsigned long>(stats.nodes), static_cast<unsigned long>(stats.spills),
      static_cast<unsigned long>(stats.bind_refused), static_cast<unsigned long>(stats.rehomes),
      static_cast<unsigned long>(stats.adoptions));
}

// --- the command line ---

// "CPU:NODE,CPU:NODE..."
void parse_homes(const char* text) {
  while (*text != '\0') {
    int cpu = 0, home = 0, length = 0;
    if (std::sscanf(text, "%d:%d%n", &cpu, &home, &length) != 2) fail(2, "--homes CPU:NODE,...");
    text += length;
    if (*text == ',') ++text;
    if (options.only != kNone && options.only != home) continue;
    if (worker_count == kMostThreads) fail(2, "too many processors");
    seats[worker_count] = {cpu, home};
    workers[worker_count] = {.index = worker_count,
                             .seat = {cpu, home},
                             .blocks = table<Block>(kMostBlocks),
                             .count = 0,
                             .random = worker_count + 1};
    ++worker_count;
  }
  if (worker_count == 0) fail(2, "--homes names no processor of --only");
}

void parse(int argc, char** argv) {
  const char* homes = "";
  for (int i = 1; i + 1 < argc; i += 2) {
    const char* const value = argv[i + 1];
    if (std::strcmp(argv[i], "--homes") == 0) {
      homes = value;
    } else if (std::strcmp(argv[i], "--mib") == 0) {
      options.bytes = std::strtoul(value, nullptr, 10) << 20;
    } else if (std::strcmp(argv[i], "--rounds") == 0) {
      options.rounds = std::strtoul(value, nullptr, 10);
    } else if (std::strcmp(argv[i], "--generations") == 0) {
      options.generations = std::strtoul(value, nullptr, 10);
    } else if (std::strcmp(argv[i], "--only") == 0) {
      options.only = std::atoi(value);
    } else {
      fail(2, "options: --homes CPU:NODE,... --mib N --rounds N --generations N --only NODE");
    }
  }
  parse_homes(homes);
}

}  // namespace

int main(int argc, char** argv) {
  Audit all;
  audit = &all;
  parse(argc, argv);
  for (size_t i = 0; i < options.generations; ++i) run_generation(i);
  report();
  return 0;
}
