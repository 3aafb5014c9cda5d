// Accesses whose number, place and effect on caches are known: what the counting plugin
// (vm/plugin) must find in the same guest. Each pattern is one region between two markers.
//
// Prints one JSON object: for each pattern in order, {"name", "counts": [[cpu, node, event,
// number]], "pages": [[cpu, number]], "all_pages"}. For memory of the heap, loads and stores are
// exact, and of the other events those that are named. Invariant: within a region threads touch,
// besides the memory of the pattern, only their stacks and the data of this program, which are
// excluded.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "bound_pages.h"
#include "marked_region.h"

namespace {

using namespace numa_guest;

constexpr size_t kLine = 64;
// For a private cache of 256 KiB.
constexpr uint32_t kFits = 64 << 10, kOverflows = 4 << 20;

// Eight bytes anywhere, read and written by one instruction.
struct [[gnu::packed]] Cell {
  uint64_t value;
};
void load(const char* memory, size_t at) {
  [[maybe_unused]] const uint64_t value =
      reinterpret_cast<const volatile Cell*>(memory + at)->value;
}
void store(char* memory, size_t at, uint64_t value) {
  reinterpret_cast<volatile Cell*>(memory + at)->value = value;
}

struct Count {
  unsigned cpu;
  unsigned node;
  const char* event;
  size_t number;
};

struct Pattern {
  const char* name;
  std::vector<unsigned> cpus;              // a thread on each
  std::function<void(size_t index)> body;  // of thread `index`
  std::vector<Count> counts;
  std::vector<std::pair<unsigned, size_t>> pages;
  size_t all_pages = 0;  // 0: not given
};

// Data of the program, hence not heap: where threads meet, and the number whose turn it is.
pthread_barrier_t meeting;
alignas(128) std::atomic<size_t> turn{0};

// Runs `step` when all earlier numbers had their turn.
template <typename Step>
void in_turn(size_t number, Step step) {
  while (turn.load(std::memory_order_acquire) != number) sched_yield();
  step();
  turn.store(number + 1, std::memory_order_release);
}

void run(const Pattern& pattern) {
  turn.store(0, std::memory_order_relaxed);  // relaxed: no thread runs yet
  pthread_barrier_init(&meeting, nullptr, static_cast<unsigned>(pattern.cpus.size()) + 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < pattern.cpus.size(); ++i) {
    threads.emplace_back([&pattern, i] {
      pin_to(pattern.cpus[i]);
      workload::marking::exclude_thread();
      // On this stack: what the thread was started with is a block of the heap.
      const std::function<void(size_t)> body = pattern.body;
      const size_t index = i;
      take_part(meeting, [&] { body(index); });
    });
  }
  run_region(meeting);
  for (std::thread& thread : threads) thread.join();
  pthread_barrier_destroy(&meeting);
}

// Touches pages that are bound to a node; from then on they lie there.
void place(char* memory, unsigned node, size_t bytes) {
  std::vector<void*> pages;
  for (size_t at = 0; at < bytes; at += kPage) {
    memory[at] = 1;
    pages.push_back(memory + at);
  }
  if (pages_elsewhere(pages, node) != 0) {
    std::fprintf(stderr, "known_pattern: pages bound to node %u lie elsewhere\n", node);
    std::exit(1);
  }
}

char* memory_on(unsigned node, size_t bytes) {
  char* const memory = map_on(node, bytes, bytes >= kHugePage);
  place(memory, node, bytes);
  return memory;
}

// Every CPU loads and stores in the memory of every node, a different number of times each.
Pattern matrix() {
  constexpr size_t kLines = 64;
  static std::vector<unsigned> cpus, nodes;
  static std::array<char*, kMostNodes> memory;
  cpus = cpus_online();
  nodes = nodes_with_memory();
  Pattern pattern{"matrix", cpus, nullptr, {}, {}};
  const auto loads = [](size_t cpu, size_t node) { return 3 * cpu + 50 * node + 7; };
  for (size_t j = 0; j < nodes.size(); ++j) {
    memory[j] = memory_on(nodes[j], cpus.size() * kPage);
    for (size_t i = 0; i < cpus.size(); ++i) {
      pattern.counts.push_back({cpus[i], nodes[j], "loads", loads(i, j) * kLines});
      pattern.counts.push_back({cpus[i], nodes[j], "stores", (loads(i, j) + 1) * kLines});
      pattern.counts.push_back({cpus[i], nodes[j], "misses", kLines});
      pattern.counts.push_back({cpus[i], nodes[j], "bounces", 0});
    }
  }
  // A page for each CPU: none is shared.
  pattern.body = [loads](size_t index) {
    for (size_t j = 0; j < nodes.size(); ++j) {
      char* const page = memory[j] + index * kPage;
      for (size_t line = 0; line < kLines; ++line) {
        for (size_t i = loads(index, j); i > 0; --i) load(page, line * kLine);
        for (size_t i = loads(index, j) + 1; i > 0; --i) store(page, line * kLine, i);
      }
    }
  };
  return pattern;
}

// One CPU reads a byte of each line, repeatedly: lines miss once if they fit into its cache, and
// every time if there are many more. The numbers are narrow: a body of two words is no block.
Pattern read_again(const char* name, unsigned cpu, unsigned node, uint32_t bytes, uint32_t rounds,
                   bool fits) {
  char* const memory = memory_on(node, std::max<size_t>(bytes, kHugePage));
  const auto body = [memory, bytes, rounds](size_t) {
    for (size_t round = 0; round < rounds; ++round) {
      for (size_t at = 0; at < bytes; at += kLine) load(memory, at);
    }
  };
  const size_t lines = bytes / kLine;
  return {name,
          {cpu},
          body,
          {{cpu, node, "loads", rounds * lines},
           {cpu, node, "stores", 0},
           {cpu, node, "misses", fits ? lines : rounds * lines},
           {cpu, node, "bounces", 0},
           {cpu, node, "upgrades", 0}},
          {{cpu, bytes / kPage}},
          bytes / kPage};
}

// Two CPUs store to one line in turn: the line bounces.
Pattern ping_pong(unsigned one, unsigned other, unsigned node) {
  constexpr size_t kRounds = 200;
  char* const memory = memory_on(node, kPage);
  const auto body = [memory](size_t index) {
    for (size_t round = 0; round < kRounds; ++round) {
      in_turn(2 * round + index, [memory, round] { store(memory, 0, round); });
    }
  };
  std::vector<Count> counts;
  for (const unsigned cpu : {one, other}) {
    counts.push_back({cpu, node, "loads", 0});
    counts.push_back({cpu, node, "stores", kRounds});
    counts.push_back({cpu, node, "misses", kRounds});
    counts.push_back({cpu, node, "bounces", kRounds - (cpu == one ? 1 : 0)});
    counts.push_back({cpu, node, "upgrades", 0});
  }
  return {"ping_pong", {one, other}, body, counts, {{one, 1}, {other, 1}}, 1};
}

// One CPU stores, another one loads: both accesses find the line in the other CPU's cache too.
Pattern hand_over(unsigned writer, unsigned reader, unsigned node) {
  constexpr size_t kRounds = 200;
  char* const memory = memory_on(node, kPage);
  const auto body = [memory](size_t index) {
    for (size_t round = 0; round < kRounds; ++round) {
      in_turn(2 * round + index, [memory, round, index] {
        if (index == 0) {
          store(memory, 0, round);
        } else {
          load(memory, 0);
        }
      });
    }
  };
  return {"hand_over",
          {writer, reader},
          body,
          {{writer, node, "stores", kRounds},
           {writer, node, "misses", 1},
           {writer, node, "bounces", 0},
           {writer, node, "upgrades", kRounds - 1},
           {reader, node, "loads", kRounds},
           {reader, node, "misses", kRounds},
           {reader, node, "bounces", kRounds},
           {reader, node, "upgrades", 0}},
          {{writer, 1}, {reader, 1}},
          1};
}

// Loads and stores of eight bytes that begin in one line, or page, and end in the next, which is on
// another node. An access is one, of the node where it begins; lines are each where they lie.
Pattern straddle(unsigned cpu, unsigned node, unsigned next) {
  constexpr size_t kRounds = 5;
  char* const memory = map_on(node, 2 * kPage, false);
  bind_to(next, memory + kPage, kPage);
  place(memory, node, kPage);
  place(memory + kPage, next, kPage);
  const auto body = [memory](size_t) {
    for (size_t round = 0; round < kRounds; ++round) {
      load(memory, kLine - 4);
      store(memory, kPage - 4, round);
    }
  };
  return {"straddle",
          {cpu},
          body,
          {{cpu, node, "loads", kRounds},
           {cpu, node, "stores", kRounds},
           {cpu, node, "misses", node == next ? 4U : 3U},
           {cpu, next, "misses", node == next ? 4U : 1U}},
          {{cpu, 2}},
          2};
}

// Two CPUs touch ten pages each, five of them the same.
Pattern common_pages(unsigned one, unsigned other, unsigned node) {
  constexpr size_t kPages = 10, kApart = 5;
  char* const memory = memory_on(node, (kPages + kApart) * kPage);
  const auto body = [memory](size_t index) {
    for (size_t i = 0; i < kPages; ++i) load(memory, (index * kApart + i) * kPage);
  };
  return {"common_pages",
          {one, other},
          body,
          {{one, node, "loads", kPages}, {other, node, "loads", kPages}},
          {{one, kPages}, {other, kPages}},
          kPages + kApart};
}

// A thread whose stack is not excluded, like a thread of an allocator: it touches it when asked.
pthread_barrier_t visit;
void* be_strange(void*) {
  std::array<char, kPage> own;
  for (;;) {
    pthread_barrier_wait(&visit);
    for (size_t at = 0; at < own.size(); at += kLine) store(own.data(), at, at);
    pthread_barrier_wait(&visit);
  }
}

void start_strange_thread() {
  pthread_t thread;
  pthread_barrier_init(&visit, nullptr, 2);
  if (pthread_create(&thread, nullptr, be_strange, nullptr) != 0) fail("pthread_create");
  pthread_detach(thread);
}

// None of its memory is heap.
Pattern strange_thread(unsigned cpu) {
  const auto body = [](size_t) {
    pthread_barrier_wait(&visit);
    pthread_barrier_wait(&visit);
  };
  return {"strange_thread", {cpu}, body, {{cpu, 0, "loads", 0}}, {}};
}

void tell(const Pattern& pattern, bool is_first) {
  std::printf("%s{\"name\": \"%s\", \"counts\": [", is_first ? "" : ", ", pattern.name);
  const char* comma = "";
  for (const Count& count : pattern.counts) {
    std::printf("%s[%u, %u, \"%s\", %zu]", comma, count.cpu, count.node, count.event, count.number);
    comma = ", ";
  }
  std::printf("], \"pages\": [");
  comma = "";
  for (const auto& [cpu, number] : pattern.pages) {
    std::printf("%s[%u, %zu]", comma, cpu, number);
    comma = ", ";
  }
  std::printf("], \"all_pages\": %zu}", pattern.all_pages);
}

}  // namespace

int main() {
  start_strange_thread();
  workload::marking::enable();
  const std::vector<unsigned> cpus = cpus_online(), nodes = nodes_with_memory();
  if (cpus.size() < 2 || nodes.empty()) {
    std::fprintf(stderr, "known_pattern: needs two processors\n");
    return 1;
  }
  const unsigned first = cpus.front(), last = cpus.back();
  const unsigned near = nodes.front(), far = nodes.back();
  const std::vector<Pattern> patterns = {
      matrix(),
      read_again("reread", first, far, kFits, 10, true),
      read_again("reread", last, far, kFits, 10, true),
      read_again("overflow", first, near, kOverflows, 2, false),
      ping_pong(first, last, far),
      hand_over(last, first, near),
      straddle(first, near, far),
      common_pages(first, last, near),
      strange_thread(first),
  };
  for (const Pattern& pattern : patterns) run(pattern);
  std::printf("{\"name\": \"known_pattern\", \"patterns\": [");
  for (size_t i = 0; i < patterns.size(); ++i) tell(patterns[i], i == 0);
  std::printf("]}\n");
  return 0;
}
