// Where blocks lie: threads that are pinned to processors allocate, free for each other, resize and
// reuse; the kernel says of every page of every live block which node it is on.
//
// Run in a guest with several nodes (lab/vm) under any allocator. Prints one JSON object:
//   pages = agree + wrong + not_present   (agree: the kernel's node is near_node_of of the block)
// and how many blocks the allocator believes, and pages the kernel says, to be away from home: the
// node that --homes gives for the processor of the thread that allocated. An allocator without
// near_node_of believes nothing: its pages are compared with the homes alone.
// Invariant: a block holds its thread's byte from end to end until it is freed; a damaged one ends
// the program with status 3. The audit's own tables are in memory of their own.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nearmalloc/nearmalloc.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMostThreads = 64;
constexpr size_t kMostBlocks = size_t{1} << 16;  // of one thread
constexpr size_t kMostPages = size_t{1} << 20;   // of all
constexpr int kNone = -1;                        // no node

struct Block {
  unsigned char* address;
  size_t size;
};

// What one thread has and where it runs.
struct Worker {
  size_t index;
  int cpu;
  int home;
  Block* blocks;
  size_t count;
  uint64_t random;
};

struct Options {
  size_t bytes = size_t{8} << 20;  // that a thread keeps alive
  size_t rounds = 3;
  int only = kNone;  // threads of this home alone, if any
};

Options options;
std::array<Worker, kMostThreads> workers;
size_t worker_count = 0;
pthread_barrier_t all_threads;

[[noreturn]] void fail(int status, const char* message) {
  std::fprintf(stderr, "audit: %s\n", message);
  std::exit(status);
}

// Zeroed memory of our own.
template <typename T>
T* table(size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail(1, "no memory for the tables");
  return static_cast<T*>(memory);
}

uint64_t next_random(Worker& worker) {
  worker.random = worker.random * 6364136223846793005 + 1442695040888963407;
  return worker.random >> 33;
}

unsigned char mark_of(const Worker& worker) { return static_cast<unsigned char>(worker.index + 1); }

void check_mark(const Block& block, unsigned char mark) {
  const unsigned char* const bytes = block.address;
  const bool same = std::memcmp(bytes, bytes + 1, block.size - 1) == 0;
  if (!same || bytes[0] != mark) fail(3, "a block was damaged");
}

// Keeps a block that was just allocated.
void keep(Worker& worker, void* address, size_t size) {
  if (address == nullptr) fail(1, "out of memory");
  if (worker.count == kMostBlocks) fail(1, "too many blocks");
  auto* const bytes = static_cast<unsigned char*>(address);
  std::memset(bytes, mark_of(worker), size);
  worker.blocks[worker.count++] = {bytes, size};
}

// A block that grew and shrank by realloc; it is used between.
void keep_resized(Worker& worker, size_t first, size_t second) {
  void* const small = std::malloc(first);
  if (small == nullptr) fail(1, "out of memory");
  std::memset(small, 0, first);
  keep(worker, std::realloc(small, second), second);
}

// Sizes of all kinds, until the thread has its bytes; at first a huge one, half of them.
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
    const size_t large = kLarge[next_random(worker) % 3];
    keep(worker, std::malloc(large), large);
    keep(worker, std::calloc(3, 1000), 3000);
    const size_t alignment = size_t{64} << next_random(worker) % 12;
    keep(worker, std::aligned_alloc(alignment, alignment), alignment);
    keep_resized(worker, 100, 20'000);
    keep_resized(worker, 400'000, 90'000);
    for (size_t i = before; i < worker.count; ++i) bytes += worker.blocks[i].size;
  }
}

// Frees every other block of another thread, in no order.
void free_half(Worker& worker, Worker& owner) {
  size_t left = 0;
  for (size_t i = 0; i < owner.count; ++i) {
    if (next_random(worker) % 2 == 0) {
      owner.blocks[left++] = owner.blocks[i];
    } else {
      check_mark(owner.blocks[i], mark_of(owner));
      std::free(owner.blocks[i].address);
    }
  }
  owner.count = left;
}

// A thread: allocates, then again and again frees what the one across has and allocates anew.
void* work(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  allocate(worker);
  for (size_t round = 0; round < options.rounds; ++round) {
    pthread_barrier_wait(&all_threads);
    const size_t across = (worker.index + worker_count / 2 + round) % worker_count;
    free_half(worker, workers[across]);
    pthread_barrier_wait(&all_threads);
    allocate(worker);
  }
  return nullptr;
}

void run_workers() {
  std::array<pthread_t, kMostThreads> threads{};
  pthread_barrier_init(&all_threads, nullptr, static_cast<unsigned>(worker_count));
  for (size_t i = 0; i < worker_count; ++i) {
    workers[i].blocks = table<Block>(kMostBlocks);
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(workers[i].cpu), &here);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setaffinity_np(&attributes, sizeof here, &here) != 0 ||
        pthread_create(&threads[i], &attributes, work, &workers[i]) != 0) {
      fail(1, "a thread cannot be started on its processor");
    }
    pthread_attr_destroy(&attributes);
  }
  for (size_t i = 0; i < worker_count; ++i) pthread_join(threads[i], nullptr);
}

// --- the audit ---

// A page with what it should be; pages that blocks share are there once for each belief and home.
struct Page {
  uintptr_t address;
  int believed;
  int home;

  friend auto operator<=>(const Page&, const Page&) = default;
};

struct Counts {
  size_t blocks = 0;
  size_t blocks_away = 0;  // believed to be elsewhere than at their thread's home
  size_t pages = 0;
  size_t agree = 0;
  size_t wrong = 0;
  size_t not_present = 0;
  size_t pages_away = 0;  // on another node than their thread's home, says the kernel
};

using NodeOf = int (*)(const void*);

size_t list_pages(NodeOf node_of, Page* pages, Counts& counts) {
  size_t count = 0;
  for (size_t i = 0; i < worker_count; ++i) {
    const Worker& worker = workers[i];
    for (size_t b = 0; b < worker.count; ++b) {
      const Block& block = worker.blocks[b];
      check_mark(block, mark_of(worker));
      const int believed = node_of == nullptr ? kNone : node_of(block.address);
      ++counts.blocks;
      if (node_of != nullptr && believed != worker.home) ++counts.blocks_away;
      const auto first = reinterpret_cast<uintptr_t>(block.address) / kPage * kPage;
      const auto end = reinterpret_cast<uintptr_t>(block.address) + block.size;
      for (uintptr_t page = first; page < end; page += kPage) {
        if (count == kMostPages) fail(1, "too many pages");
        pages[count++] = {page, believed, worker.home};
      }
    }
  }
  std::sort(pages, pages + count);
  return static_cast<size_t>(std::unique(pages, pages + count) - pages);
}

// What the kernel says of a page: a node, or less than 0.
void ask_kernel(const Page* pages, size_t count, int* nodes) {
  constexpr size_t kAtATime = 1024;
  for (size_t done = 0; done < count; done += kAtATime) {
    std::array<void*, kAtATime> addresses{};
    const size_t some = std::min(kAtATime, count - done);
    for (size_t i = 0; i < some; ++i) {
      addresses[i] = reinterpret_cast<void*>(pages[done + i].address);
    }
    if (syscall(SYS_move_pages, 0, some, addresses.data(), nullptr, nodes + done, 0) != 0) {
      fail(1, "move_pages was refused");
    }
  }
}

Counts audit(NodeOf node_of) {
  Counts counts;
  Page* const pages = table<Page>(kMostPages);
  int* const nodes = table<int>(kMostPages);
  counts.pages = list_pages(node_of, pages, counts);
  ask_kernel(pages, counts.pages, nodes);
  for (size_t i = 0; i < counts.pages; ++i) {
    const int expected = node_of == nullptr ? pages[i].home : pages[i].believed;
    if (nodes[i] < 0) {
      ++counts.not_present;
    } else {
      ++(nodes[i] == expected ? counts.agree : counts.wrong);
      if (nodes[i] != pages[i].home) ++counts.pages_away;
    }
  }
  return counts;
}

void report(const Counts& counts, bool believes) {
  near_stats stats{};
  if (void* const get = dlsym(RTLD_DEFAULT, "near_get_stats")) {
    reinterpret_cast<void (*)(near_stats*)>(get)(&stats);
  }
  std::printf(
      "{\"believes\": %s, \"threads\": %zu, \"blocks\": %zu, \"blocks_away\": %zu, "
      "\"pages\": %zu, \"agree\": %zu, \"wrong\": %zu, \"not_present\": %zu, \"pages_away\": %zu, "
      "\"nodes\": %lu, \"spills\": %lu, \"bind_refused\": %lu, \"rehomes\": %lu}\n",
      believes ? "true" : "false", worker_count, counts.blocks, counts.blocks_away, counts.pages,
      counts.agree, counts.wrong, counts.not_present, counts.pages_away,
      static_cast<unsigned long>(stats.nodes), static_cast<unsigned long>(stats.spills),
      static_cast<unsigned long>(stats.bind_refused), static_cast<unsigned long>(stats.rehomes));
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
    workers[worker_count] = {.index = worker_count,
                             .cpu = cpu,
                             .home = home,
                             .blocks = nullptr,
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
    } else if (std::strcmp(argv[i], "--only") == 0) {
      options.only = std::atoi(value);
    } else {
      fail(2, "options: --homes CPU:NODE,... --mib N --rounds N --only NODE");
    }
  }
  parse_homes(homes);
}

}  // namespace

int main(int argc, char** argv) {
  parse(argc, argv);
  run_workers();
  const auto node_of = reinterpret_cast<NodeOf>(dlsym(RTLD_DEFAULT, "near_node_of"));
  report(audit(node_of), node_of != nullptr);
  return 0;
}
