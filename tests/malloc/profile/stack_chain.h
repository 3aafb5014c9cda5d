// Allocations with as many stacks as a test needs.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include <cstddef>

#include "base/compiler.h"

namespace near_test {

using ChainCall = void* (*)(unsigned number, unsigned calls, size_t size);
extern const volatile ChainCall kChainCalls[2];

// Allocates below a chain of calls, which has another stack for each number.
template <unsigned kByte>
NEAR_NOINLINE void* chain_call(unsigned number, unsigned calls, size_t size) {
  void* block =
      calls == 0 ? near_malloc(size) : kChainCalls[number % 2](number / 2, calls - 1, size);
  static_cast<char*>(block)[kByte] = 1;  // no tail call, and no equal code
  return block;
}
inline const volatile ChainCall kChainCalls[2] = {chain_call<0>, chain_call<1>};

}  // namespace near_test
