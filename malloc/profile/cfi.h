// Call frame information: the rules by which the registers of a function's caller are found, at one
// place of the function.
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "platform/registers.h"

namespace near::profile {

// How the caller's value of a register is found.
struct Rule {
  enum class Kind : uint8_t { same, undefined, stored, in_register };
  Kind kind;
  int32_t offset;  // stored: from the frame address; in_register: its number
};

struct Rules {
  // The frame address (CFA) is register + offset; or the word that is stored there.
  uint32_t cfa_register;
  int32_t cfa_offset;
  bool cfa_is_stored;
  uint32_t return_register;
  Rule of[Registers::kCount];
};

enum class Found : uint8_t { rules, nothing, not_understood };

// Finds the rules at the address from a description (FDE). `nothing`: the function that it
// describes does not hold the address.
Found find_rules(const uint8_t* description, uintptr_t pc, Rules& out);

}  // namespace near::profile
