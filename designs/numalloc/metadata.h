// Metadata of one node, in memory of that node, on normal pages. [Yang23 §3.3, §3.4]
//
// Memory is handed out from the start of the node's part of the reservation and never taken back:
// its users recycle it.
// Thread-safety: `set` at start; `take` any thread, with any lock held.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "designs/shared/arena.h"

namespace near::design::numalloc {

class Metadata {
 public:
  void set(uintptr_t start, size_t size) { arena_.use(start, size, kStep); }

  // Zeroed memory, aligned to a cache line; null if it is refused.
  void* take(size_t bytes) { return arena_.take(align_up(bytes, kLine)); }

  size_t committed() const { return arena_.committed(); }
  size_t size() const { return arena_.size(); }

 private:
  static constexpr size_t kStep = 64 * kKiB;  // the largest system page
  static constexpr size_t kLine = 64;

  Arena arena_;
};

}  // namespace near::design::numalloc
