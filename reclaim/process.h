// What the parts of reclaim/ share beside the installed headers: fences counted, misuse reported,
// the domains of the process.
// Who may touch it: any thread.
#pragma once

#include <cstdint>

#include "nearmalloc/reclaim/impl/fail.hpp"

namespace near::reclaim::impl {

class Core;
struct Record;

// Heavy fences of the process so far.
uint64_t heavy_fences() noexcept;

// For a process that forked: its child has to register again.
bool register_membarrier() noexcept;

// The list of all domains, for thread exit and fork.
uint64_t new_serial() noexcept;
void enlist(Core& core) noexcept;
void delist(Core& core) noexcept;

}  // namespace near::reclaim::impl
