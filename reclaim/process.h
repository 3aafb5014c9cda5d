// What the parts of reclaim/ share besides the installed headers: the count of heavy fences, misuse
// reports, and the list of the domains of the process.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"
#include "nearmalloc/reclaim/impl/fail.hpp"

namespace near::reclaim::impl {

class Core;
struct Record;

// Notes that a thread uses a domain without a handle (reclaim/thread.cc).
struct Use {
  Use* const* list = nullptr;  // the thread's list
  Use* next = nullptr;         // in that list
  Atomic<uint64_t> serial{0};  // of the domain; 0: it has ended
  Record* record = nullptr;
  Use* next_of_core = nullptr;
  Use** link_of_core = nullptr;
};

// Makes the end of the calling thread give up all that it has here (reclaim/thread.cc).
void watch_exit() noexcept;
// Called at the end of the thread (reclaim/loose_slots.cc).
void give_back_kept_slots() noexcept;

// How many heavy fences the process has executed.
uint64_t heavy_fences() noexcept;

// Registers the process with the kernel; the child of a fork has to register again.
bool register_membarrier() noexcept;

// The list of all domains, for thread exit and fork.
uint64_t new_serial() noexcept;
void enlist(Core& core) noexcept;
// Returns how many threads used the domain without a handle and have not ended.
uint32_t delist(Core& core) noexcept;

}  // namespace near::reclaim::impl
