// Threads on all processors allocate and free only blocks of their own: how many accesses to
// another node's memory does that make? Counted by the plugin (vm/plugin), as one region.
//
// Each thread first has blocks of every class, so that its spans and lists exist; from then on it
// takes the fast path: pairs of malloc and free, and batches that its spans have free blocks for.
// With --foreign it also frees blocks of a thread on another node, and the count must show it.
// Invariant: within the region threads touch, besides their blocks and what the allocator touches,
// their stacks and the data of this program alone, which are excluded.
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>

#include "bound_pages.h"
#include "marked_region.h"

namespace {

using namespace numa_guest;

constexpr size_t kMostThreads = 64;
constexpr size_t kBlocks = 24;  // of a class: a batch
constexpr size_t kHeld = 8;     // of a class, which stay: their spans never become empty
constexpr size_t kPairs = 8;    // one after the other
constexpr size_t kRounds = 40;
constexpr size_t kForeign = 16;  // blocks of another thread that a thread frees
// One size of each class up to what medium blocks end at, in steps that are at least as fine as
// those of the allocators: 16 to 128 by 16, then four to a doubling.
constexpr auto kSizes = [] {
  std::array<size_t, 40> sizes{};
  for (size_t i = 0; i < 8; ++i) sizes[i] = 16 * (i + 1);
  for (size_t i = 8; i < sizes.size(); ++i) {
    sizes[i] = (size_t{32} << (i - 8) / 4) * (5 + (i - 8) % 4);
  }
  return sizes;
}();

using Batch = std::array<char*, kBlocks>;
using Held = std::array<std::array<char*, kHeld>, kSizes.size()>;

// Data of the program, hence not heap.
pthread_barrier_t meeting;
std::vector<unsigned> cpus;
bool foreign = false;
std::array<std::array<char*, kForeign>, kMostThreads> handed;  // by allocating thread
std::atomic<size_t> damaged{0};

// Both ends of the block.
void touch(char* block, size_t size, uint64_t stamp) {
  std::memcpy(block, &stamp, sizeof stamp);
  std::memcpy(block + size - sizeof stamp, &stamp, sizeof stamp);
}

bool is_as_left(const char* block, size_t size, uint64_t stamp) {
  uint64_t last = 0;
  std::memcpy(&last, block + size - sizeof last, sizeof last);
  return last == stamp;
}

char* allocated(size_t size, uint64_t stamp) {
  char* const block = static_cast<char*>(std::malloc(size));
  if (block == nullptr) fail("malloc");
  touch(block, size, stamp);
  return block;
}

void release(char* block, size_t size, uint64_t stamp) {
  // relaxed: read after all threads have met
  if (!is_as_left(block, size, stamp)) damaged.fetch_add(1, std::memory_order_relaxed);
  std::free(block);
}

void play_round(uint64_t stamp) {
  for (const size_t size : kSizes) {
    for (size_t i = 0; i < kPairs; ++i) release(allocated(size, stamp), size, stamp);
    Batch batch;
    for (char*& block : batch) block = allocated(size, stamp);
    for (char* const block : batch) release(block, size, stamp);
  }
}

// A thread of another node, where nodes have equally many processors.
size_t opposite(size_t index) { return (index + cpus.size() / 2) % cpus.size(); }

void* play(void* number) {
  const auto index = reinterpret_cast<size_t>(number);
  pin_to(cpus[index]);
  workload::marking::exclude_thread();
  Held held;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    for (char*& block : held[i]) block = allocated(kSizes[i], index);
  }
  for (char*& block : handed[index]) block = allocated(kSizes[0], index);
  for (size_t round = 0; round < kRounds; ++round) play_round(index);
  take_part(meeting, [index] {
    for (size_t round = 0; round < kRounds; ++round) play_round(index);
    if (foreign) {
      for (char* const block : handed[opposite(index)]) std::free(block);
    }
  });
  for (size_t i = 0; i < kSizes.size(); ++i) {
    for (char* const block : held[i]) release(block, kSizes[i], index);
  }
  if (!foreign) {
    for (char* const block : handed[index]) release(block, kSizes[0], index);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  foreign = argc > 1 && std::strcmp(argv[1], "--foreign") == 0;
  workload::marking::enable();
  cpus = cpus_online();
  if (cpus.size() > kMostThreads) return 1;
  pthread_barrier_init(&meeting, nullptr, static_cast<unsigned>(cpus.size()) + 1);
  std::vector<pthread_t> threads(cpus.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    if (pthread_create(&threads[i], nullptr, play, reinterpret_cast<void*>(i)) != 0) {
      fail("pthread_create");
    }
  }
  run_region(meeting);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  const size_t pairs = threads.size() * kRounds * kSizes.size() * (kPairs + kBlocks);
  std::printf(
      "{\"name\": \"local_path\", \"threads\": %zu, \"classes\": %zu, \"pairs\": %zu, "
      "\"damaged\": %zu}\n",
      threads.size(), kSizes.size(), pairs, damaged.load());
  return 0;
}
