// The domains this thread used lately without a handle, so that finding its record is two loads.
// Who may touch it: its thread.
#pragma once

#include <cstdint>

namespace near::reclaim::impl {

struct Record;

struct Recent {
  uint64_t serial;  // of the domain; 0: none
  Record* record;
};

inline constexpr unsigned kRecents = 8;
extern constinit thread_local Recent recents[kRecents];

int32_t own_thread() noexcept;  // its kernel number

}  // namespace near::reclaim::impl
