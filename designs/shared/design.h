// What a published design provides. The shim, the tests and the lab reach every design by this.
//
// A design is a type with static members only: there is one of it in a process. Its library names
// it in `this_design.h` (`using ThisDesign = ...`), from which designs/shared makes a malloc.
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
  size_t committed = 0;     // of it, readable and writable
  size_t in_use = 0;        // in blocks that are handed out, as well as the design knows
  size_t large = 0;         // of it, in blocks with a mapping or a run of pages of their own
  size_t large_blocks = 0;  // how many those are
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

      // Once, before everything below, under a lock; the switches have their values. False if
      // memory is refused: nothing has changed, and it is called again later.
      { D::start() } -> std::same_as<bool>;

      // Gives the calling thread its state; false if memory is refused. Paired with thread_exit,
      // which takes it away. Both may happen several times in a thread that ends (shared/life.h).
      { D::thread_enter() } -> std::same_as<bool>;
      { D::thread_exit() } -> std::same_as<void>;

      // Any thread. A block of at least `size` bytes, aligned to 16, below 16 bytes to 8 (or to
      // `alignment`, a power of two beyond 16); any size and alignment may be asked. Null if it is
      // refused.
      { D::allocate(size) } -> std::same_as<void*>;
      { D::allocate_aligned(size, size) } -> std::same_as<void*>;
      // Any thread. Not null. What is no block of this design is reported (shared/invalid.h).
      { D::deallocate(block) } -> std::same_as<void>;
      // Any thread. The bytes that the owner of a live block may use; 0 if it is no block of ours.
      { D::usable_size(pointer) } -> std::same_as<size_t>;

      // As `allocate`, and all bytes are zero.
      { D::allocate_zeroed(size) } -> std::same_as<void*>;
      // Makes a live block at least `size` bytes where it is; false, and nothing is done, if it
      // cannot.
      { D::resize(block, size) } -> std::same_as<bool>;
      // In the library's constructor: the process is far enough for any call.
      { D::configure() } -> std::same_as<void>;

      // Gives back what can be. True if anything was.
      { D::trim() } -> std::same_as<bool>;
      { D::footprint() } -> std::same_as<Footprint>;
      // At most kMaxCounters; returns how many.
      { D::counters(counters) } -> std::same_as<size_t>;

      // Around fork: takes every lock there is; gives them back. In the child no other thread
      // lives.
      { D::lock_for_fork() } -> std::same_as<void>;
      { D::unlock_after_fork(child) } -> std::same_as<void>;
    };

// What most designs do the same way: `struct Scalloc : Defaults<Scalloc>`.
template <typename D>
struct Defaults {
  static void* allocate_zeroed(size_t size) {
    void* block = D::allocate(size);
    return block != nullptr ? memset(block, 0, size) : nullptr;
  }
  static bool resize(void*, size_t) { return false; }
  static void configure() {}

  // For a design whose locks are always the same ones, which `for_each_lock(visit)` visits, those
  // of higher ranks first.
  static void lock_for_fork() {
    D::for_each_lock([](Mutex& lock) { lock.lock_for_fork(); });
  }
  static void unlock_after_fork(bool) {
    D::for_each_lock([](Mutex& lock) { lock.unlock_for_fork(); });
  }
};

}  // namespace near::design
