// A chain of calls that notes where each of its functions returns to, as the compiler says, and the
// stack that the profiler finds there. The build compiles the files that include this so that their
// functions sign their return addresses on aarch64 (tests/malloc/CMakeLists.txt).
// Thread-safety: one test at a time, because the way of stacks is chosen for the process.
#pragma once

#include <gtest/gtest.h>
#include <sys/auxv.h>

#include <cstdint>

#include "platform/registers.h"
#include "profile/stack.h"
#include "support/cases.h"

namespace near_test {
namespace {

constexpr unsigned kMostSigned = 64;

struct SignedStack {
  unsigned depth = 0;
  uintptr_t returns[kMostSigned];  // the outermost function's first
  unsigned count = 0;
  uintptr_t frames[kMostSigned];  // the innermost function's first

  bool is_signed = false;  // an address that lay on the stack was

  [[gnu::always_inline]] void note(void* returns_to, const void* frame) {
    returns[depth++] = near::plain_return_address(reinterpret_cast<uintptr_t>(returns_to));
    const uintptr_t stored = static_cast<const uintptr_t*>(frame)[1];
    if (near::plain_return_address(stored) != stored) is_signed = true;
  }
};

[[gnu::noinline]] void capture_signed(SignedStack& stack) {
  stack.note(__builtin_return_address(0), __builtin_frame_address(0));
  stack.count = near::profile::capture_stack(stack.frames, kMostSigned);
  asm volatile("" ::: "memory");  // no tail call
}

[[gnu::noinline]] void call_signed(SignedStack& stack, unsigned calls) {
  stack.note(__builtin_return_address(0), __builtin_frame_address(0));
  if (calls > 0) {
    call_signed(stack, calls - 1);
  } else {
    capture_signed(stack);
  }
  asm volatile("" ::: "memory");  // no tail call
}

// True if the processor knows signatures, and Linux has switched them on for processes.
inline bool signs_addresses() {
  constexpr unsigned long kHwcapPaca = 1UL << 30;
  constexpr uintptr_t kSigned = 0x007f'0000'0000'1000;
  const bool knows = near::plain_return_address(kSigned) != kSigned;
  return knows && (getauxval(AT_HWCAP) & kHwcapPaca) != 0;
}

// The first frame lies in capture_signed, and each next one is where a function of the chain
// returns to.
inline void expect_signed_stack(bool by_frame_pointers) {
  const bool signs = signs_addresses();
  near::profile::prepare_stacks(by_frame_pointers);
  for (const unsigned calls : {0, 1, 10, 40}) {
    SignedStack stack;
    call_signed(stack, calls);
    EXPECT_EQ(stack.depth, calls + 2);
    EXPECT_EQ(stack.is_signed, signs) << "the addresses show nothing";
    ASSERT_GT(stack.count, stack.depth) << "the stack ended early";
    for (unsigned i = 0; i < stack.depth; i++) {
      EXPECT_EQ(stack.frames[i + 1], stack.returns[stack.depth - 1 - i]) << "frame " << i + 1;
    }
    count_cases();
  }
  near::profile::prepare_stacks(false);
}

}  // namespace
}  // namespace near_test
