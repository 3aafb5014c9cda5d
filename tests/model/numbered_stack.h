// A stack of numbers on sync/tagged_stack.h, which holds the links itself; or, as a
// fault, a stack without the tag, which allows ABA.
// Thread-safety: only the threads of its suite use it.
#pragma once

#include "runner.h"
#include "sync/tagged_stack.h"

namespace near::model {

inline constexpr const char* kUntagged = "a pop leaves no trace in the top";

// Holds the numbers from 1 to `kNumbers`.
template <uint32_t kNumbers>
class NumberedStack {
 public:
  void push(uint32_t number) {
    if (!mutated(kUntagged)) return stack_.push(Links{links_}, number);
    uint32_t top = untagged_.load(kRelaxed);
    do {
      links_[number].store(top, kRelaxed);
    } while (!untagged_.compare_exchange_weak(top, number, kRelease, kRelaxed));
  }

  uint32_t pop() {
    if (!mutated(kUntagged)) return stack_.pop(Links{links_});
    uint32_t top = untagged_.load(kAcquire);
    while (top != 0) {
      const uint32_t below = links_[top].load(kRelaxed);
      if (untagged_.compare_exchange_weak(top, below, kAcquire, kAcquire)) break;
    }
    return top;
  }

 private:
  struct Links {
    Atomic<uint32_t>* links;
    Atomic<uint32_t>& next(uint32_t number) const { return links[number]; }
  };

  TaggedStack stack_;
  Atomic<uint32_t> untagged_{0};
  Atomic<uint32_t> links_[kNumbers + 1];
};

}  // namespace near::model
