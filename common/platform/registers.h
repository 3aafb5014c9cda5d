// The registers that unwinding follows, by the numbers that DWARF gives them on each processor.
// Thread-safety: the thread whose registers they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "platform/address.h"

namespace near {

struct Registers {
#if defined(__x86_64__)
  static constexpr unsigned kCount = 17;
  static constexpr unsigned kFrame = 6;
  static constexpr unsigned kStack = 7;
  static constexpr unsigned kReturn = 16;
  static constexpr uint8_t kKept[] = {3, 6, 12, 13, 14, 15, kReturn};
#elif defined(__aarch64__)
  static constexpr unsigned kCount = 32;
  static constexpr unsigned kFrame = 29;
  static constexpr unsigned kStack = 31;
  static constexpr unsigned kReturn = 30;
  static constexpr uint8_t kKept[] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, kFrame, kReturn};
#endif
  // kKept: those that a function keeps for its caller, and the return address.

  uintptr_t value[kCount];
  uintptr_t pc;
  uintptr_t read_last;  // a place of the stack that is certainly readable

  // Reads the word at a place of the stack. Frames lie close together, so a place on another page
  // than the last one is tested first: tables, or what the program did to its stack, may be wrong.
  bool read_word(uintptr_t place, uintptr_t& out) {
    constexpr uintptr_t kPage = 4096;
    if (place % sizeof(uintptr_t) != 0) return false;
    const auto* word = reinterpret_cast<const uintptr_t*>(place);
    if (place / kPage != read_last / kPage && !is_readable(word)) return false;
    read_last = place;
    out = *word;
    return true;
  }

  uintptr_t frame() const { return value[kFrame]; }
  uintptr_t stack() const { return value[kStack]; }

  // Reads those that a function keeps for its caller, at a place of the calling function.
  NEAR_INLINE void read() {
    for (uintptr_t& each : value) each = 0;
#if defined(__x86_64__)
    asm volatile(
        "movq %%rbx, 24(%0)\n\t"
        "movq %%rbp, 48(%0)\n\t"
        "movq %%rsp, 56(%0)\n\t"
        "movq %%r12, 96(%0)\n\t"
        "movq %%r13, 104(%0)\n\t"
        "movq %%r14, 112(%0)\n\t"
        "movq %%r15, 120(%0)\n\t"
        "leaq 0f(%%rip), %%rax\n"
        "0:\tmovq %%rax, 136(%0)"
        :
        : "r"(value)
        : "rax", "memory");
#elif defined(__aarch64__)
    asm volatile(
        "stp x19, x20, [%0, 152]\n\t"
        "stp x21, x22, [%0, 168]\n\t"
        "stp x23, x24, [%0, 184]\n\t"
        "stp x25, x26, [%0, 200]\n\t"
        "stp x27, x28, [%0, 216]\n\t"
        "stp x29, x30, [%0, 232]\n\t"
        "mov x9, sp\n\t"
        "str x9, [%0, 248]\n\t"
        "adr x9, 0f\n"
        "0:\tstr x9, [%0, 256]"
        :
        : "r"(value)
        : "x9", "memory");
#endif
    read_last = stack();
  }
};
static_assert(offsetof(Registers, pc) == Registers::kCount * sizeof(uintptr_t));

}  // namespace near
