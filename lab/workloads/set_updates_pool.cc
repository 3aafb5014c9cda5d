// `set_updates` with the least memory management: blocks of the measured region come from memory
// that was touched before, by moving a pointer, and are never freed. No allocator with any
// reclamation has less to do. (Leaking through an allocator has more: page faults.) Use --scheme
// leaky.
//
// It is a program of its own because it replaces operator new everywhere.
// Invariant: a block belongs to the pool exactly if its address is inside. Thread-safety: any
// thread.
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "set_updates.h"

namespace {

constexpr size_t kChunk = size_t{1} << 18;  // for one thread at a time
constexpr size_t kUnit = 16;

std::atomic<char*> next{nullptr};  // null: not open
char* start = nullptr;
size_t size = 0;
thread_local char* mine = nullptr;
thread_local char* mine_end = nullptr;

void open(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("set_updates_pool: --pool");
    std::exit(1);
  }
  start = static_cast<char*>(memory);
  size = bytes;
  next.store(start, std::memory_order_release);  // pairs: pool
}

size_t used() {
  return static_cast<size_t>(next.load(std::memory_order_acquire) - start);  // pairs: pool
}

bool is_inside(const void* block) {
  return static_cast<size_t>(static_cast<const char*>(block) - start) < size;
}

[[noreturn]] void give_up() {
  static std::atomic<bool> said{false};
  // relaxed: only the first thread prints it
  if (!said.exchange(true, std::memory_order_relaxed)) {
    std::fprintf(stderr, "set_updates_pool: --pool is too small\n");
  }
  std::_Exit(1);
}

void* take(size_t bytes) {
  const size_t wanted = (bytes + kUnit - 1) / kUnit * kUnit;
  if (static_cast<size_t>(mine_end - mine) < wanted) {
    const size_t chunk = wanted < kChunk ? kChunk : wanted;
    // relaxed: the caller saw that the pool is open
    mine = next.fetch_add(static_cast<std::ptrdiff_t>(chunk), std::memory_order_relaxed);
    mine_end = mine + chunk;
    if (mine_end > start + size) {
      give_up();
    }
  }
  return std::exchange(mine, mine + wanted);
}

void* allocate(size_t bytes) {
  if (next.load(std::memory_order_acquire) != nullptr) return take(bytes);  // pairs: pool
  if (void* const block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}

void release(void* block) {
  if (!is_inside(block)) std::free(block);
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }

int main(int argc, char** argv) {
  const set_updates::Pool pool{open, used};
  return set_updates::run_program("set_updates_pool", argc, argv, &pool);
}
