// See checked_heap.h. A header lies before each block.
//
// relaxed in this file: counts, and places in a ring whose entries change hands by exchange.
#include "checked_heap.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace near_test {
namespace {

constexpr uint32_t kLive = 0x11FEB10C;
constexpr uint32_t kDead = 0xDEADB10C;
constexpr unsigned char kPattern = 0xDA;  // even: as a link it is not marked removed
constexpr size_t kLargestKept = 1024;
constexpr size_t kKept = size_t{1} << 13;

struct alignas(16) Header {
  size_t size;
  uint32_t offset;  // from malloc's result to the block
  std::atomic<uint32_t> state;
};

std::atomic<size_t> live{0};
std::atomic<size_t> next_place{0};
std::array<std::atomic<Header*>, kKept> kept;
thread_local size_t until_refusal = 0;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "checked heap: %s\n", what);
  std::abort();
}

unsigned char* block_of(Header* header) { return reinterpret_cast<unsigned char*>(header + 1); }

void free_dead(Header* header) {
  if (header == nullptr) return;
  const unsigned char* block = block_of(header);
  for (size_t i = 0; i < header->size; ++i) {
    if (block[i] != kPattern) fail("an object was written after its end");
  }
  std::free(block_of(header) - header->offset);
}

bool refuses() {
  if (until_refusal == 0) return false;
  if (until_refusal > 1) --until_refusal;
  return until_refusal == 1;
}

void* allocate(size_t size, size_t alignment) {
  if (refuses()) return nullptr;
  const size_t offset = alignment > sizeof(Header) ? alignment : sizeof(Header);
  const size_t whole = (offset + size + offset - 1) / offset * offset;
  auto* start = static_cast<unsigned char*>(std::aligned_alloc(offset, whole));
  if (start == nullptr) return nullptr;
  auto* header = new (start + offset - sizeof(Header)) Header;
  header->size = size;
  header->offset = static_cast<uint32_t>(offset);
  header->state.store(kLive, std::memory_order_relaxed);
  live.fetch_add(1, std::memory_order_relaxed);
  return start + offset;
}

void* allocate_or_throw(size_t size, size_t alignment) {
  void* block = allocate(size, alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void* block) {
  if (block == nullptr) return;
  Header* header = static_cast<Header*>(block) - 1;
  const uint32_t state = header->state.exchange(kDead, std::memory_order_relaxed);
  if (state == kDead) fail("an object was deleted twice");
  if (state != kLive) fail("delete of what new did not give");
  live.fetch_sub(1, std::memory_order_relaxed);
  std::memset(block, kPattern, header->size);
  if (header->size > kLargestKept) {
    free_dead(header);
    return;
  }
  const size_t place = next_place.fetch_add(1, std::memory_order_relaxed) % kKept;
  free_dead(kept[place].exchange(header, std::memory_order_acq_rel));  // pairs: kept
}

}  // namespace

size_t live_blocks() { return live.load(std::memory_order_relaxed); }

void refuse_memory_after(size_t number) { until_refusal = number == 0 ? 0 : number + 1; }

void drain_quarantine() {
  for (auto& each : kept)
    free_dead(each.exchange(nullptr, std::memory_order_acq_rel));  // pairs: kept
}

}  // namespace near_test

using near_test::allocate;
using near_test::allocate_or_throw;
using near_test::release;

constexpr size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

// The array and sized forms of the library end in these.
void* operator new(size_t size) { return allocate_or_throw(size, kPlain); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, kPlain); }
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { release(block); }
