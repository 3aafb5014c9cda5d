// The count of an object's references, some of which are given up later.
//
// A reference is that of a location, which any thread may read, or that of a local pointer, which
// belongs to one thread.
//
//   read     protect what the location names; then, to keep it: count + 1
//   replace  put another pointer into the location, and retire the reference it had
//   let go   count - 1: of a local reference at once, of a location's when its retirement ends
//
// Invariant: while a thread protects what it read from a location, the count is 1 or more. Proof.
// When it validated its pointer the location named the object, and its reference was counted. That
// is given up when the retirement ends, which the thread's protection delays. So a reader never
// finds a count of 0, and the thread that makes it 0 is alone with it.
// Each location retires its own reference, so an object may be retired several times at once. A
// slot that holds it delays one of them for each thread that looks: any reference that is not given
// up keeps the count. [Anderson21 CDRC]
// Thread-safety: any thread that has a reference, or protects what it read.
#pragma once

#include <cstdint>

#include "nearmalloc/impl/atomic.hpp"

namespace near::reclaim::impl {

class ReferenceCount {
 public:
  void add() noexcept { count_.fetch_add(1, kRelaxed); }  // relaxed: it is not 0

  // True: it was the last one, and the caller has to destroy the object.
  [[nodiscard]] bool let_go() noexcept {
    return count_.fetch_sub(1, kAcqRel) == 1;  // pairs: reference-count
  }

  // A thread that has the only reference, and finds 1, comes after all that let go.
  uint64_t number() const noexcept {
    return count_.load(kAcquire);  // pairs: reference-count
  }

 private:
  Atomic<uint64_t> count_{1};
};

}  // namespace near::reclaim::impl
