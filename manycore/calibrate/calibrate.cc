// Measures what this machine's operations cost, for a machine file of manycore/machines. Prints one
// JSON object of nanoseconds. It needs two processors that nothing else uses.
//
// Every number is the least of some repetitions: a disturbance only ever adds time.
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kLine = 64, kPage = 4096, kHuge = size_t{2} << 20, kMiB = size_t{1} << 20;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(time).count();
}

// The nanoseconds of one of `number` equal operations, which `all` does.
double each(size_t number, const std::function<void()>& all) {
  double least = 1e18;
  for (int repetition = 0; repetition < 7; ++repetition) {
    const double begin = now();
    all();
    least = std::min(least, now() - begin);
  }
  return least / static_cast<double>(number);
}

// --- processors ---

std::vector<int> processors() {
  cpu_set_t set;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return found;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) found.push_back(i);
  }
  return found;
}

void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// --- memory ---

struct Mapping {
  explicit Mapping(size_t size, int advice)
      : bytes(size + kHuge),
        whole(static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (whole == MAP_FAILED) {
      std::perror("calibrate: mmap");
      std::exit(1);
    }
    madvise(whole, bytes, advice);
    const uintptr_t rounded = (reinterpret_cast<uintptr_t>(whole) + kHuge - 1) / kHuge * kHuge;
    begin = whole + (rounded - reinterpret_cast<uintptr_t>(whole));
  }
  ~Mapping() { munmap(whole, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  size_t bytes;
  std::byte* whole;
  std::byte* begin;  // a multiple of 2 MiB
};

// A load that depends on the one before, from random lines of so many bytes.
double chase(size_t bytes) {
  const Mapping mapping(bytes, MADV_HUGEPAGE);
  const size_t lines = bytes / kLine;
  std::vector<size_t> order(lines);
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin() + 1, order.end(), std::mt19937_64(1));
  const auto at = [&](size_t line) {
    return reinterpret_cast<void**>(mapping.begin + line * kLine);
  };
  for (size_t i = 0; i < lines; ++i) *at(order[i]) = at(order[(i + 1) % lines]);
  void* volatile sink;
  const size_t steps = 2'000'000;
  return each(steps, [&] {
    void** place = at(0);
    for (size_t i = 0; i < steps; ++i) place = static_cast<void**>(*place);
    sink = place;
  });
}

double uncontended_atomic() {
  std::atomic<uint64_t> word = 0;
  const size_t steps = 1'000'000;
  return each(steps, [&] {
    for (size_t i = 0; i < steps; ++i) word.fetch_add(1);
  });
}

// One processor writes a word after it saw the other's write: the line goes there and back.
double handover(int a, int b) {
  alignas(kLine * 2) std::atomic<uint64_t> word = 0;
  const size_t rounds = 100'000;
  const auto play = [&](uint64_t mine) {
    for (size_t i = 0; i < rounds; ++i) {
      while ((word.load(std::memory_order_acquire) & 1) != mine) {
      }
      word.fetch_add(1, std::memory_order_release);
    }
  };
  pin(a);
  return each(2 * rounds, [&] {
    word.store(0);
    std::thread other([&] {
      pin(b);
      play(1);
    });
    play(0);
    other.join();
  });
}

// --- the kernel ---

double system_call() {
  const size_t calls = 200'000;
  return each(calls, [] {
    for (size_t i = 0; i < calls; ++i) syscall(SYS_getppid);
  });
}

struct Faults {
  double touch;   // of one page, zeroing included
  double give;    // what munmap takes for it
  bool as_asked;  // whether there were as many faults as pages
};

Faults faults(size_t bytes, size_t page, int advice) {
  Faults least = {1e18, 1e18, true};
  const auto pages = static_cast<double>(bytes / page);
  for (int repetition = 0; repetition < 7; ++repetition) {
    rusage before, after;
    auto* const mapping = new Mapping(bytes, advice);
    getrusage(RUSAGE_SELF, &before);
    const double begin = now();
    for (size_t at = 0; at < bytes; at += page) mapping->begin[at] = std::byte{1};
    const double touched = now();
    getrusage(RUSAGE_SELF, &after);
    const double freeing = now();
    delete mapping;
    const double end = now();
    least.touch = std::min(least.touch, (touched - begin) / pages);
    least.give = std::min(least.give, (end - freeing) / pages);
    least.as_asked = std::abs(static_cast<double>(after.ru_minflt - before.ru_minflt) - pages) < 9;
  }
  return least;
}

struct Shootdown {
  double send;  // what the caller waits
  double take;  // what the interrupted processor loses
};

// Gives pages back while the other processor computes in the same process, and while it is idle.
Shootdown shootdown(int a, int b) {
  pin(a);
  const Mapping mapping(kPage, MADV_NOHUGEPAGE);
  const size_t calls = 20'000;
  const auto give = [&] {
    for (size_t i = 0; i < calls; ++i) {
      mapping.begin[0] = std::byte{1};
      madvise(mapping.begin, kPage, MADV_DONTNEED);
    }
  };
  const double alone = each(calls, give);
  std::atomic<bool> stop = false;
  alignas(kLine * 2) std::atomic<uint64_t> steps = 0;
  std::thread other([&] {
    pin(b);
    while (!stop.load(std::memory_order_relaxed)) {
      steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  });
  const auto rate = [&](const std::function<void()>& during) {
    const uint64_t first = steps.load();
    const double begin = now();
    during();
    return static_cast<double>(steps.load() - first) / (now() - begin);
  };
  const auto wait = [] {
    const double end = now() + 2e7;
    while (now() < end) {
    }
  };
  double calm = 0, disturbed = 0, together = 1e18;
  for (int repetition = 0; repetition < 7; ++repetition) {
    calm = std::max(calm, rate(wait));
    const double begin = now();
    const double seen = rate(give);
    together = std::min(together, (now() - begin) / calls);
    disturbed = std::max(disturbed, seen);
  }
  stop = true;
  other.join();
  return {std::max(0.0, together - alone), std::max(0.0, (1 - disturbed / calm) * together)};
}

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

struct Futexes {
  double wake;  // the call that wakes a thread
  double wait;  // from its end until the thread runs
};

Futexes futexes(int a, int b) {
  std::atomic<uint32_t> word = 0;
  const uint32_t rounds = 2'000;
  std::vector<double> wakes, waits;
  std::atomic<double> woken_at = 0;
  pin(a);
  std::thread other([&] {
    pin(b);
    for (uint32_t i = 0; i < rounds; ++i) {
      while (word.load() == i) futex(word, FUTEX_WAIT, i);
      woken_at = now();
    }
  });
  for (uint32_t i = 0; i < rounds; ++i) {
    const double until = now() + 1e5;  // the other thread has gone to sleep by then
    while (now() < until) {
    }
    woken_at = 0;
    const double begin = now();
    word.store(i + 1);
    futex(word, FUTEX_WAKE, 1);
    const double end = now();
    while (woken_at.load() == 0) {
    }
    wakes.push_back(end - begin);
    waits.push_back(std::max(0.0, woken_at.load() - begin));
  }
  other.join();
  const auto median = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
  };
  return {median(wakes), median(waits)};
}

double context_switch(int processor) {
  const size_t yields = 50'000;
  pin(processor);
  return each(2 * yields, [&] {
    const auto yield = [&] {
      pin(processor);
      for (size_t i = 0; i < yields; ++i) sched_yield();
    };
    std::thread other(yield);
    yield();
    other.join();
  });
}

}  // namespace

int main() {
  const std::vector<int> usable = processors();
  if (usable.size() < 2) {
    std::fputs("calibrate: two processors are needed\n", stderr);
    return 2;
  }
  const int a = usable[0], b = usable[1];
  pin(a);
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const auto bytes = [](long size, size_t otherwise) {
    return size > 0 ? static_cast<size_t>(size) : otherwise;
  };
  const double l1_ns = chase(16 << 10);
  const double l2_ns = chase(bytes(l2, kMiB) / 2);
  const double l3_ns = chase(std::min(bytes(l3, 8 * kMiB) / 4, 8 * kMiB));
  const double memory_ns = chase(512 * kMiB);
  const double atomic_ns = uncontended_atomic();
  const double call = system_call();
  const Faults small = faults(64 * kMiB, kPage, MADV_NOHUGEPAGE);
  const Faults huge = faults(256 * kMiB, kHuge, MADV_HUGEPAGE);
  const Shootdown interrupts = shootdown(a, b);
  const Futexes sleeping = futexes(a, b);
  const double switching = context_switch(a);
  const double moving = handover(a, b);
  std::printf(
      "{\"l1\": %.2f, \"l2\": %.2f, \"l3\": %.2f, \"memory\": %.1f, \"atomic\": %.2f, "
      "\"handover\": %.1f, \"system_call\": %.1f, \"fault_small\": %.1f, \"fault_huge\": %.1f, "
      "\"huge_pages\": %s, \"unmap_page\": %.1f, \"interrupt_send\": %.1f, "
      "\"interrupt_take\": %.1f, \"futex_wake\": %.1f, \"futex_wait\": %.1f, "
      "\"context_switch\": %.1f}\n",
      l1_ns, l2_ns, l3_ns, memory_ns, atomic_ns, moving, call, small.touch, huge.touch,
      huge.as_asked ? "true" : "false", small.give, interrupts.send, interrupts.take,
      sleeping.wake, sleeping.wait, switching);
  return 0;
}
