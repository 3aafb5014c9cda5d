// The registers that unwinding follows, by the numbers that DWARF gives them on each processor.
// Thread-safety: the thread whose registers they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "platform/address.h"

namespace near {

// On aarch64 a return address that lies on a stack may be signed: a signature fills the bits above
// those that addresses have, however many these are. The instruction XPACLRI removes it from x30.
// Its code is that of a hint, so processors that cannot sign ignore it.
NEAR_INLINE uintptr_t plain_return_address(uintptr_t address) {
#if defined(__aarch64__)
  asm("mov x30, %0\n\thint #7\n\tmov %0, x30" : "+r"(address) : : "x30");
#endif
  return address;
}

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
  // Bytes of the stack that are certainly readable: whole pages.
  struct Readable {
    uintptr_t start;
    uintptr_t end;
    bool has(uintptr_t place) const { return place - start < end - start; }
  };
  Readable readable;

  // Reads the word at a place of the stack. A page that was not read yet is tested first: tables,
  // or what the program did to its stack, may be wrong.
  NEAR_INLINE bool read_word(uintptr_t place, uintptr_t& out) {
    if (unlikely(place % sizeof(uintptr_t) != 0)) return false;
    const auto* word = reinterpret_cast<const uintptr_t*>(place);
    if (unlikely(!readable.has(place)) && !test_page(word)) return false;
    out = *word;
    return true;
  }

  // From now on at most the page of the stack pointer is taken for readable.
  void distrust() { readable = readable.has(stack()) ? page_of(stack()) : Readable{}; }

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
    readable = page_of(stack());
  }

 private:
  static constexpr uintptr_t kPage = 4096;
  static Readable page_of(uintptr_t place) {
    const uintptr_t start = place & ~(kPage - 1);
    return {start, start + kPage};
  }

  // Adds the page if it follows on those that are known; otherwise it takes their place.
  NEAR_NOINLINE bool test_page(const uintptr_t* word) {
    if (!is_readable(word)) return false;
    const Readable page = page_of(reinterpret_cast<uintptr_t>(word));
    if (page.start == readable.end) {
      readable.end = page.end;
    } else {
      readable = page;
    }
    return true;
  }
};
static_assert(offsetof(Registers, pc) == Registers::kCount * sizeof(uintptr_t));

}  // namespace near
