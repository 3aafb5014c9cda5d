// How the library ends a process that misuses it.
// Who may touch it: any thread.
#pragma once

namespace near::reclaim::impl {

// Says on stderr what is wrong, and aborts.
[[noreturn]] void fail_with(const char* what) noexcept;

}  // namespace near::reclaim::impl
