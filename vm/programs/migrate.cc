// Threads that migrate: what is handed out to a thread after it came to another node.
//
// Run in a guest with several nodes (numa) under any allocator. Threads have no processor of
// their own; each has live blocks and replaces random ones of them. By turns, one thread at a time,
// it moves as the kernel's scheduler might: to a processor of another node, among those that it may
// use (an allocator may have bound it), in a seeded order; then it goes on. Each block that is then
// handed out lies, says the kernel, here or away. It counts as reused until the thread's heap has
// changed: nearmalloc counts that for the node (near_node_stats.rehomes), others show it by the
// first block from here. From then on, until the next move, it is new; a large one is so always:
//   reused_here + reused_away + new_here + new_away + large_here + large_away = blocks handed out
// When every thread had its turn, all live blocks are audited (audit_pages.h). A thread also frees
// some blocks of the one before it. Prints one JSON object.
// Invariant: one thread runs at a time, so that a change of the counters is its own.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "audit_pages.h"
#include "bound_pages.h"
#include "nearmalloc/nearmalloc.h"

namespace {

using namespace numa_guest;

constexpr size_t kMostThreads = 64;
constexpr size_t kLarge = size_t{32} << 10;  // larger blocks: nearmalloc takes the current node's

struct Options {
  size_t threads = 8;
  size_t turns = 12;        // of each thread
  size_t operations = 400;  // in a turn
  size_t blocks = 300;      // kept by a thread
  uint64_t seed = 1;
};

// Where a block can be, relative to the thread that it was handed out to.
struct Placed {
  size_t here = 0;
  size_t away = 0;
};

struct Results {
  size_t moves = 0;
  size_t held = 0;     // turns without one: no processor of another node is allowed
  size_t changed = 0;  // turns in which the heap changed
  Placed reused, fresh, large;
};

struct Worker {
  size_t index = 0;
  uint64_t random = 0;
  Block* blocks = nullptr;
};

Options options;
Results results;
std::array<Worker, kMostThreads> workers;
std::array<unsigned, CPU_SETSIZE> node_of_cpu;
size_t cpu_count = 0;
Audit* audit = nullptr;

pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
size_t turn = 0;  // of thread number turn % threads

// --- the allocator's own counts ---

using GetNodeStats = int (*)(unsigned, near_node_stats*);
GetNodeStats get_node_stats = nullptr;

uint64_t rehomes_of(unsigned node) {
  near_node_stats stats{};
  for (unsigned i = 0; get_node_stats != nullptr && get_node_stats(i, &stats) == 0; ++i) {
    if (stats.node == node) return stats.rehomes;
  }
  return 0;
}

// --- moving ---

// Moves to a processor of another node, if `allowed` has one.
void move(Worker& worker, const cpu_set_t& allowed) {
  const unsigned from = here().node;
  std::array<unsigned, CPU_SETSIZE> others{};
  size_t count = 0;
  for (unsigned cpu = 0; cpu < cpu_count; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && node_of_cpu[cpu] != from) others[count++] = cpu;
  }
  if (count == 0) {
    ++results.held;
    return;
  }
  pin_to(others[next_random(worker.random) % count]);
  ++results.moves;
}

// --- a turn ---

// What a thread knows of its heap since it moved.
class Stay {
 public:
  Stay() : node_(here().node), rehomes_(rehomes_of(node_)) {}

  unsigned node() const { return node_; }

  void count(const Block& block) {
    const bool is_here = kernel_node(block.address) == static_cast<int>(node_);
    if (!changed_ && has_changed(is_here)) {
      changed_ = true;
      ++results.changed;
    }
    Placed& placed = block.size > kLarge ? results.large
                     : changed_          ? results.fresh
                                         : results.reused;
    ++(is_here ? placed.here : placed.away);
  }

 private:
  bool has_changed(bool is_here) const {
    return get_node_stats == nullptr ? is_here : rehomes_of(node_) != rehomes_;
  }

  const unsigned node_;
  const uint64_t rehomes_;
  bool changed_ = false;
};

size_t pick_size(Worker& worker) {
  static constexpr size_t kSizes[] = {16, 24, 48, 64, 100, 200, 256, 700, 1000, 3000, 9000};
  constexpr size_t kLargeOneIn = 200;
  if (next_random(worker.random) % kLargeOneIn == 0) return 70'000;
  return kSizes[next_random(worker.random) % std::size(kSizes)];
}

void allocate(Worker& worker, Block& block, Stay& stay) {
  const size_t size = pick_size(worker);
  const auto mark = static_cast<unsigned char>(worker.index + 1);
  block = marked(std::malloc(size), size, static_cast<int>(stay.node()), mark);
  stay.count(block);
}

void release(Block& block) {
  if (block.address == nullptr) return;
  check_mark(block);
  std::free(block.address);
  block.address = nullptr;
}

// Replaces random blocks of the thread's own; frees one in eight of another thread's, which that
// thread allocates anew when it reaches them.
void take_turn(Worker& worker) {
  Stay stay;
  for (size_t i = 0; i < options.operations; ++i) {
    Block& block = worker.blocks[next_random(worker.random) % options.blocks];
    release(block);
    allocate(worker, block, stay);
  }
  Worker& before = workers[(worker.index + options.threads - 1) % options.threads];
  for (size_t i = 0; i < options.blocks; i += 8) release(before.blocks[i]);
}

void audit_all() {
  for (size_t i = 0; i < options.threads; ++i) {
    std::for_each_n(workers[i].blocks, options.blocks, [](const Block& block) {
      if (block.address != nullptr) audit->add(block);
    });
  }
  audit->finish();
}

void* work(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_getaffinity");
  pthread_mutex_lock(&turn_lock);
  for (size_t i = 0; i < options.turns; ++i) {
    while (turn % options.threads != worker.index) pthread_cond_wait(&turn_changed, &turn_lock);
    move(worker, allowed);
    take_turn(worker);
    if (++turn % options.threads == 0) audit_all();
    pthread_cond_broadcast(&turn_changed);
  }
  pthread_mutex_unlock(&turn_lock);
  return nullptr;
}

void run() {
  std::array<pthread_t, kMostThreads> threads{};
  // All of them first, because a thread frees blocks of its neighbour.
  for (size_t i = 0; i < options.threads; ++i) {
    workers[i] = {i, options.seed * kMostThreads + i, table<Block>(options.blocks)};
  }
  for (size_t i = 0; i < options.threads; ++i) {
    if (pthread_create(&threads[i], nullptr, work, &workers[i]) != 0) {
      fail(1, "a thread cannot be started");
    }
  }
  for (size_t i = 0; i < options.threads; ++i) pthread_join(threads[i], nullptr);
}

// --- the command line, the report ---

void print(const char* name, const Placed& placed) {
  std::printf("\"%s_here\": %zu, \"%s_away\": %zu, ", name, placed.here, name, placed.away);
}

void report() {
  const near_stats stats = allocator_stats();
  std::printf("{\"threads\": %zu, \"moves\": %zu, \"held\": %zu, \"changed\": %zu, ",
              options.threads, results.moves, results.held, results.changed);
  print("reused", results.reused);
  print("new", results.fresh);
  print("large", results.large);
  audit->print();
  std::printf(", \"rehomes\": %lu, \"spills\": %lu}\n", static_cast<unsigned long>(stats.rehomes),
              static_cast<unsigned long>(stats.spills));
}

void read_cpus() {
  for (const unsigned cpu : cpus_online()) {
    pin_to(cpu);
    node_of_cpu[cpu] = here().node;
    cpu_count = cpu + 1;
  }
}

// Asks each processor in turn for its node, before threads start.
void read_machine() {
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0) fail("sched_getaffinity");
  read_cpus();
  if (sched_setaffinity(0, sizeof before, &before) != 0) fail("sched_setaffinity");
  get_node_stats = reinterpret_cast<GetNodeStats>(dlsym(RTLD_DEFAULT, "near_get_node_stats"));
}

void parse(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const size_t value = std::strtoul(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--threads") == 0) {
      options.threads = value;
    } else if (std::strcmp(argv[i], "--turns") == 0) {
      options.turns = value;
    } else if (std::strcmp(argv[i], "--operations") == 0) {
      options.operations = value;
    } else if (std::strcmp(argv[i], "--blocks") == 0) {
      options.blocks = value;
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      options.seed = value;
    } else {
      fail(2, "options: --threads N --turns N --operations N --blocks N --seed N");
    }
  }
  const bool right = options.threads >= 1 && options.threads <= kMostThreads && options.blocks >= 1;
  if (!right) fail(2, "--threads 1 to 64, --blocks at least 1");
}

}  // namespace

int main(int argc, char** argv) {
  parse(argc, argv);
  Audit all;
  audit = &all;
  read_machine();
  run();
  report();
  return 0;
}
