// The state of a thread in a domain, as a signal handler finds it that interrupts the thread at any
// instruction.
//
//   0              outside
//   n              pinned, by n guards
//   kUnsettled | n the owner begins a pin, or works without one; n guards of handlers
//   kWorking | n   pinned by n guards, and the owner works
//
//   pin    kUnsettled, announce and look at the epoch, 1; Token EBR: 1, announce
//   unpin  0, then the announcement is withdrawn
// A handler that finds n > 0 nests in a pin that is in force until the handler returns. A handler
// that finds kUnsettled announces for itself, and changes no other word of the owner: not `seen`,
// with which the owner labels what it retires. It leaves its announcement in place and sets
// `interrupted`: the owner, which cannot tell whether it had already looked at the epoch, begins
// anew. A handler that finds 0 begins and ends a pin of its own.
// Invariant: a handler leaves the word as it found it.
// Thread-safety: the owner and its handlers; other threads only read it, to report misuse.
#pragma once

#include <atomic>
#include <cstdint>

namespace near::reclaim::impl {

// A plain word suffices, as one thread uses it: the fences keep the compiler to program order, and
// a handler runs between two instructions.
class Stay {
 public:
  static constexpr uint32_t kUnsettled = 1u << 31;
  static constexpr uint32_t kWorking = 1u << 30;

  bool is_outside() const { return word_ == 0; }
  bool has_one_guard() const { return word_ == 1; }
  bool is_unsettled() const { return (word_ & kUnsettled) != 0; }
  bool is_inside_library() const { return word_ >= kWorking; }
  uint32_t guards() const { return word_ & (kWorking - 1); }

  void end() { set(0); }
  void begin() { set(kUnsettled); }
  void settle() { set(1); }
  void settle_working() { set(kWorking | 1); }
  void add_guard() { set(word_ + 1); }
  void remove_guard() { set(word_ - 1); }

  // The owner begins library work, or leaves it to run a deleter, which is code of the program.
  // Both return the word for `restore`.
  uint32_t enter_library() {
    const uint32_t before = word_;
    if (!is_inside_library()) set(before == 0 ? kUnsettled : before | kWorking);
    return before;
  }
  uint32_t leave_library() {
    const uint32_t before = word_;
    set(guards());
    return before;
  }
  void restore(uint32_t before) { set(before); }

 private:
  void set(uint32_t word) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
    word_ = word;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs: own-handlers
  }

  uint32_t word_ = 0;
};

}  // namespace near::reclaim::impl
