// Where a domain gets the memory that notes retired objects: blocks of 1,280 bytes for 63 objects
// (2,288 under ibr and hyaline), and under hyaline the batches in flight. By default: malloc.
//
//   pool notes;                               // of the program
//   options settings;
//   settings.memory = {allocate_from_pool, return_to_pool, &notes};
//   domain<debra<>> d(settings);
//
// Both functions are called by any thread that uses the domain, at the same time, also inside
// `retire` and while a deleter runs; so they must not use the domain, nor wait for its threads. A
// block comes back with the size with which it was asked for, at the latest when the domain ends.
// In the child of a fork, blocks that another thread was just using do not come back.
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace near::reclaim {

struct limbo_memory {
  // Returns a block that is aligned as one from malloc. Null: no memory; then what is retired is
  // leaked and counted (statistics::lost), or under hyaline stays in its bag until a later look.
  void* (*allocate)(size_t bytes, void* context) noexcept = [](size_t bytes, void*) noexcept {
    return std::malloc(bytes);
  };
  void (*deallocate)(void* block, size_t bytes, void* context) noexcept =
      [](void* block, size_t, void*) noexcept { std::free(block); };
  void* context = nullptr;
};

}  // namespace near::reclaim
