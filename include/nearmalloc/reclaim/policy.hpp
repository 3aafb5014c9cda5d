// How a domain frees objects that are safe: a value, chosen when the domain is made.
//
// Thread-safety: a plain value. [Kim23 §3.3 amortized batch free; §3.2 batch]
#pragma once

#include <cstdint>

namespace near::reclaim {

struct policy {
  enum class kind : uint8_t { batch, amortized, adaptive, budget, manual };

  kind type = kind::adaptive;
  uint32_t objects = 1;      // amortized: freed each time; adaptive: freed at first; 1 or more
  uint32_t every = 1;        // amortized, adaptive, budget: once in so many operations; 1 or more
  uint32_t nanoseconds = 0;  // budget: time for freeing, each time

  // Frees everything at once as soon as it is safe, as epoch-based reclamation commonly does.
  static constexpr policy batch() { return {kind::batch, 1, 1, 0}; }

  // Frees `objects` once in `every` operations: amortized batch free. If the program retires faster
  // than that, the backlog grows until the thread ends: see `adaptive`.
  static constexpr policy amortized(uint32_t objects = 1, uint32_t every = 1) {
    return {kind::amortized, objects, every, 0};
  }

  // As amortized, but the number of objects adapts. If a grace period leaves objects over, it
  // becomes what would have freed them all, at most twice the number before; if none waited, it
  // shrinks by an eighth. There is no upper limit: each time at least a 1024th of the backlog is
  // freed. Bound: if a thread retires at most r objects from one time to the next, and they are
  // safe after D times, then at most (1024 + D) * r of them are safe and wait.
  static constexpr policy adaptive(uint32_t objects = 1, uint32_t every = 1) {
    return {kind::adaptive, objects, every, 0};
  }

  // Frees for so many nanoseconds, once in `every` operations; at least eight objects each time.
  static constexpr policy budget(uint32_t nanoseconds, uint32_t every = 1) {
    return {kind::budget, 1, every, nanoseconds};
  }

  // Frees only in handle::reclaim, reclaim_all, barrier, a background reclaimer, the end of the
  // domain, and at the limit of bytes. Robust schemes keep their bound nevertheless.
  static constexpr policy manual() { return {kind::manual, 1, 1, 0}; }
};

}  // namespace near::reclaim
