// How objects that are safe to free are freed: a value, chosen when a domain is made.
//
// Who may touch it: a plain value. [Kim23 §3.3 amortized batch free; §3.2 batch]
#pragma once

#include <cstdint>

namespace near::reclaim {

struct policy {
  enum class kind : uint8_t { batch, amortized, adaptive, budget, manual };

  kind how = kind::adaptive;
  uint32_t objects = 1;      // amortized: freed at a time; adaptive: at first; 1 or more
  uint32_t every = 1;        // amortized, adaptive, budget: operations between two times; 1 or more
  uint32_t nanoseconds = 0;  // budget: time for freeing, each time

  // Everything at once as soon as it is safe: what epoch-based reclamation commonly does.
  static constexpr policy batch() { return {kind::batch, 1, 1, 0}; }

  // `objects` each time, once in `every` operations: amortized batch free. Where more is retired
  // than that, what waits grows until the thread ends: see `adaptive`.
  static constexpr policy amortized(uint32_t objects = 1, uint32_t every = 1) {
    return {kind::amortized, objects, every, 0};
  }

  // As amortized; the number of objects follows what is retired: when a grace period leaves objects
  // over, as many as would have freed them all, at most twice as many as before; when none waited
  // an eighth less. There is no upper limit: each time at least a 1024th of what waits is freed.
  // Bound, for a thread that retires at most r objects from one time to the next, and whose objects
  // are safe after D times: at most (1024 + D) * r of them are safe and wait.
  static constexpr policy adaptive(uint32_t objects = 1, uint32_t every = 1) {
    return {kind::adaptive, objects, every, 0};
  }

  // For so many nanoseconds each time, once in `every` operations; eight objects at least.
  static constexpr policy budget(uint32_t nanoseconds, uint32_t every = 1) {
    return {kind::budget, 1, every, nanoseconds};
  }

  // Only by handle::reclaim, barrier, and the end of the domain. Robust schemes keep their bound
  // nevertheless.
  static constexpr policy manual() { return {kind::manual, 1, 1, 0}; }
};

}  // namespace near::reclaim
