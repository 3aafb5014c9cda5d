// Known patterns of accesses, each with counts that the engine must find exactly.
//
// `patterns NAME THREADS COUNT` runs one; a comment at each says what it does. The measured part is
// a region of the engine (near_manycore_region_begin), so that the start of threads does not count.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
void near_manycore_region_begin(const char* name) __attribute__((weak));
void near_manycore_region_end() __attribute__((weak));
}

namespace {

constexpr size_t kLine = 64, kPage = 4096;

// What all threads read, and what they write to meet, lie apart.
alignas(2 * kLine) unsigned threads = 1;
size_t count = 1;
struct alignas(2 * kLine) Barrier {
  pthread_barrier_t barrier;
};
Barrier together;

struct Region {
  explicit Region(const char* name) { near_manycore_region_begin(name); }
  ~Region() { near_manycore_region_end(); }
};

void meet() { pthread_barrier_wait(&together.barrier); }

// Runs work(index) on each of `threads` threads.
void run(void (*work)(size_t)) {
  static void (*function)(size_t);
  function = work;
  pthread_barrier_init(&together.barrier, nullptr, threads);
  std::vector<pthread_t> all(threads);
  for (size_t i = 0; i < threads; ++i) {
    const auto start = [](void* index) -> void* {
      function(reinterpret_cast<size_t>(index));
      return nullptr;
    };
    if (pthread_create(&all[i], nullptr, start, reinterpret_cast<void*>(i)) != 0) abort();
  }
  for (const pthread_t thread : all) pthread_join(thread, nullptr);
}

// --- cache lines ---

struct alignas(2 * kLine) Turn {
  std::atomic<size_t> value{0};
};
Turn turn;

// Threads take turns: each increment finds the line in another core.
void ping_pong(size_t self) {
  const size_t rounds = count;
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) {
    while (turn.value.load(std::memory_order_relaxed) % threads != self) {
    }
    turn.value.fetch_add(1);
  }
}

struct alignas(2 * kLine) Counters {
  std::atomic<size_t> own[8];
};
Counters one_line;

// Each thread increments its own counter; all lie in one line.
void false_sharing(size_t self) {
  const size_t rounds = count;
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) one_line.own[self % 8].fetch_add(1);
}

struct alignas(2 * kLine) Constant {
  std::atomic<size_t> value{7};
};
Constant constant;
std::atomic<size_t> sum{0};

// All threads read one line: each core fetches it once.
void read_shared(size_t) {
  const size_t rounds = count;
  size_t mine = 0;
  meet();
  {
    Region region("pattern");
    for (size_t i = 0; i < rounds; ++i) mine += constant.value.load(std::memory_order_relaxed);
  }
  sum += mine;
}

struct alignas(2 * kLine) Private {
  std::atomic<size_t> value;
};
Private privates[1024];

// Each thread has a line of its own: nothing moves after the first access.
void private_lines(size_t self) {
  const size_t rounds = count;
  privates[self].value.fetch_add(1);
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) privates[self].value.fetch_add(1);
}

// --- locks, pages ---

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
size_t guarded = 0;

void convoy(size_t) {
  const size_t rounds = count;
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&mutex);
    ++guarded;
    pthread_mutex_unlock(&mutex);
  }
}

char* map(size_t pages) {
  void* const made =
      mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) abort();
  return static_cast<char*>(made);
}

// Each thread touches `count` new pages.
void faults(size_t) {
  const size_t rounds = count;
  char* const pages = map(count);
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) pages[i * kPage] = 1;
}

std::atomic<bool> done{false};

// The first thread gives a page back `count` times while the others run.
void shootdowns(size_t self) {
  const size_t rounds = count;
  char* const page = map(1);
  meet();
  if (self != 0) {
    while (!done.load()) {
    }
    return;
  }
  for (size_t i = 0; i < rounds; ++i) {
    *page = 1;
    madvise(page, kPage, MADV_DONTNEED);
    if (*page != 0) abort();
  }
  done = true;
}

// --- the allocator ---

// After a warm-up, each thread allocates and frees blocks of its own, a few at a time.
void own_blocks(size_t) {
  const size_t rounds = count;
  void* blocks[8];
  const auto round = [&](size_t size) {
    for (void*& block : blocks) block = malloc(size);
    for (void* const block : blocks) free(block);
  };
  for (size_t size = 16; size <= 1024; size *= 2) {
    for (int i = 0; i < 50; ++i) round(size);
  }
  meet();
  Region region("pattern");
  for (size_t i = 0; i < rounds; ++i) {
    for (size_t size = 16; size <= 1024; size *= 2) round(size);
  }
}

// --- ends ---

void wait_for_nothing(size_t) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&mutex);
}
void exit_here(size_t self) {
  meet();
  if (self == 0) exit(3);
  while (true) sleep(1);
}
void crash(size_t) { *static_cast<volatile int*>(nullptr) = 1; }

struct Pattern {
  const char* name;
  void (*work)(size_t);
};
constexpr Pattern kPatterns[] = {
    {"ping_pong", ping_pong},
    {"false_sharing", false_sharing},
    {"read_shared", read_shared},
    {"private_lines", private_lines},
    {"convoy", convoy},
    {"faults", faults},
    {"shootdowns", shootdowns},
    {"own_blocks", own_blocks},
    {"deadlock", wait_for_nothing},
    {"exit", exit_here},
    {"crash", crash},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  threads = static_cast<unsigned>(atoi(argv[2]));
  count = static_cast<size_t>(atol(argv[3]));
  for (const Pattern& pattern : kPatterns) {
    if (std::strcmp(pattern.name, argv[1]) != 0) continue;
    run(pattern.work);
    std::printf("{\"turn\": %zu, \"guarded\": %zu}\n", turn.value.load(), guarded);
    return 0;
  }
  return 2;
}
