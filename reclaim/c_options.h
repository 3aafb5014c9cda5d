// The options of a domain, as C gives them.
// Thread-safety: plain values; a StallListener is constant and lives as long as its domain.
#pragma once

#include <optional>

#include "nearmalloc/reclaim.h"
#include "nearmalloc/reclaim/options.hpp"

namespace near::reclaim::impl {

// All options but the scheme and `on_stall`; none if a value is out of range.
std::optional<options> options_of(const near_reclaim_options& chosen) noexcept;

// The program's function for stalls: its type differs from that of the library.
struct StallListener {
  void (*function)(const near_reclaim_stall*, void*);
  void* context;

  // `settings`, with this as listener, if there is a function.
  options listening(options settings) const noexcept;
};

}  // namespace near::reclaim::impl
