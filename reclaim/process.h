// What the parts of reclaim/ share beside the installed headers: fences counted, misuse reported,
// the domains of the process.
// Who may touch it: any thread.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fail.hpp"

namespace near::reclaim::impl {

class Core;
struct Record;

// A thread uses a domain without a handle (reclaim/thread.cc).
struct Use {
  Use* const* list = nullptr;  // the thread's
  Use* next = nullptr;         // in that
  Atomic<uint64_t> serial{0};  // of the domain; 0: it has ended
  Record* record = nullptr;
  Use* next_of_core = nullptr;
  Use** link_of_core = nullptr;
};

// Heavy fences of the process so far.
uint64_t heavy_fences() noexcept;

// For a process that forked: its child has to register again.
bool register_membarrier() noexcept;

// The list of all domains, for thread exit and fork.
uint64_t new_serial() noexcept;
void enlist(Core& core) noexcept;
// How many threads used it without a handle and have not ended.
uint32_t delist(Core& core) noexcept;

}  // namespace near::reclaim::impl
