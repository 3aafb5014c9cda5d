// What the scenarios share: memory that is not the allocator's, waiting for a figure to fall, and
// threads that stop at gates.
// Invariant: what a scenario needs for its own book-keeping is mapped and unmapped by itself, so
// that resident bytes minus those before it are the allocator's.
// Thread-safety: see each class.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "support/cases.h"
#include "support/near_extras.h"
#include "support/pattern.h"
#include "support/proc_self.h"
#include "support/standard_names.h"

namespace near_test {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGiB = size_t{1} << 30;

// An array of zeroes in pages of its own.
template <typename Item>
class Mapped {
 public:
  explicit Mapped(size_t size) : size_(size) {
    void* pages =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    items_ = static_cast<Item*>(pages);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { munmap(items_, bytes()); }

  Item& operator[](size_t index) { return items_[index]; }
  size_t size() const { return size_; }

 private:
  size_t bytes() const { return size_ * sizeof(Item); }
  Item* items_ = nullptr;
  size_t size_;
};

// Sleeps until at most `bytes` are resident or `seconds` have passed. Returns the resident bytes.
inline size_t wait_for_resident(size_t bytes, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t resident = resident_bytes();
  while (resident > bytes && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    resident = resident_bytes();
  }
  return resident;
}

inline void touch(void* block, size_t size) {
  for (size_t offset = 0; offset < size; offset += 4096) static_cast<char*>(block)[offset] = 1;
  if (size != 0) static_cast<char*>(block)[size - 1] = 1;
}

inline size_t above(size_t figure, size_t before) { return figure > before ? figure - before : 0; }

inline void report(const char* what, size_t bytes) {
  std::printf("%s: %.1f MiB\n", what, static_cast<double>(bytes) / static_cast<double>(kMiB));
}

}  // namespace near_test
