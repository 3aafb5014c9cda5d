// Reads unwind tables (.eh_frame): from the registers in a function to those in its caller.
//
// [DWARF 5, 6.4; Linux Standard Base 5.0, 10.6] As much of them as compilers write for functions
// that call others: no frames of signal handlers, and of expressions only those for stacks that a
// function aligns. What is not understood ends the stack.
// Thread-safety: any thread, also in a handler; find_unwind_header says when it takes a lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "platform/registers.h"

namespace near::profile {

enum class Step : uint8_t {
  done,
  end,      // the outermost frame, or tables that are not understood
  unknown,  // no table has the code
};

class KnownRules;

// Moves to the caller. Rules that `known` has are not found anew; those that are found are kept.
Step step_by_tables(Registers& registers, KnownRules& known);

}  // namespace near::profile
