// Ends a process that misuses the library.
// Thread-safety: any thread.
#pragma once

namespace near::reclaim::impl {

// Reports on stderr what is wrong, and aborts.
[[noreturn]] void fail_with(const char* what) noexcept;

}  // namespace near::reclaim::impl
