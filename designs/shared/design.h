// What a published design provides: the interface by which the shim, the tests and the lab use it.
//
// A design is a type with static members only: a process has one of it. Its library names it in
// `this_design.h` (`using ThisDesign = ...`), and designs/shared builds a malloc from that type.
// Thread-safety: as each member says.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "designs/shared/switches.h"
#include "sync/mutex.h"

namespace near::design {

// Sizes in bytes.
struct Footprint {
  size_t reserved = 0;      // address space
  size_t committed = 0;     // readable and writable part of it
  size_t in_use = 0;        // in blocks that are handed out, as far as the design knows
  size_t large = 0;         // part of it in blocks with a mapping or a run of pages of their own
  size_t large_blocks = 0;  // how many such blocks there are
};

// An event that a design counts, for tests, the lab, and the summary at exit.
struct Counter {
  const char* name;
  uint64_t value;
};
inline constexpr size_t kMaxCounters = 32;

template <typename D>
concept Design =
    requires(void* block, const void* pointer, size_t size, bool child, Counter* counters) {
      { D::kName } -> std::convertible_to<const char*>;
      { D::switches() } -> std::same_as<std::span<Switch>>;

      // Called once, before everything below, under a lock, when the switches have their values.
      // False if memory is refused: then nothing has changed, and it is called again later.
      { D::start() } -> std::same_as<bool>;

      // Gives the calling thread its state; false if memory is refused. thread_exit takes the state
      // away. An ending thread may call both several times (shared/life.h).
      { D::thread_enter() } -> std::same_as<bool>;
      { D::thread_exit() } -> std::same_as<void>;

      // Any thread. A block of at least `size` bytes, aligned to 16, below 16 bytes to 8 (or to
      // `alignment`, a power of two beyond 16). Any size and alignment may be requested. Null if
      // the request is refused.
      { D::allocate(size) } -> std::same_as<void*>;
      { D::allocate_aligned(size, size) } -> std::same_as<void*>;
      // Any thread. Not null. A pointer that is no block of this design is reported
      // (shared/invalid.cc).
      { D::deallocate(block) } -> std::same_as<void>;
      // Any thread. The bytes that the owner of a live block may use; 0 if the design has no such
      // block.
      { D::usable_size(pointer) } -> std::same_as<size_t>;

      // Like `allocate`, with all bytes zero.
      { D::allocate_zeroed(size) } -> std::same_as<void*>;
      // Grows a live block in place to at least `size` bytes; false, with nothing done, if it
      // cannot.
      { D::resize(block, size) } -> std::same_as<bool>;
      // Called in the library's constructor, when the process can make any call.
      { D::configure() } -> std::same_as<void>;

      // Gives unused memory back to the system. True if there was any.
      { D::trim() } -> std::same_as<bool>;
      { D::footprint() } -> std::same_as<Footprint>;
      // Writes at most kMaxCounters; returns how many.
      { D::counters(counters) } -> std::same_as<size_t>;

      // Around fork: the first takes every lock, the second releases them. In the child no other
      // thread exists.
      { D::lock_for_fork() } -> std::same_as<void>;
      { D::unlock_after_fork(child) } -> std::same_as<void>;
    };

// The behaviour that most designs share: `struct Scalloc : Defaults<Scalloc>`.
template <typename D>
struct Defaults {
  static void* allocate_zeroed(size_t size) {
    void* block = D::allocate(size);
    return block != nullptr ? memset(block, 0, size) : nullptr;
  }
  static bool resize(void*, size_t) { return false; }
  static void configure() {}

  // For a design with a fixed set of locks: `for_each_lock(visit)` visits them, higher ranks first.
  static void lock_for_fork() {
    D::for_each_lock([](Mutex& lock) { lock.lock_for_fork(); });
  }
  static void unlock_after_fork(bool) {
    D::for_each_lock([](Mutex& lock) { lock.unlock_for_fork(); });
  }
};

}  // namespace near::design
