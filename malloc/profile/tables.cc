#include "profile/tables.h"

#include <iterator>

#include "platform/unwind_header.h"
#include "profile/cfi.h"
#include "profile/known_rules.h"
#include "profile/search_table.h"

namespace near::profile {
namespace {

bool find_frame_address(const Rules& rules, Registers& registers, uintptr_t& cfa) {
  if (rules.cfa_register >= Registers::kCount) return false;
  cfa = registers.value[rules.cfa_register] + static_cast<uintptr_t>(rules.cfa_offset);
  return !rules.cfa_is_stored || registers.read_word(cfa, cfa);
}

// Restores the caller's registers by the rules.
Step apply(const Rules& rules, Registers& registers) {
  uintptr_t cfa = 0;
  if (!find_frame_address(rules, registers, cfa)) return Step::end;
  if (cfa <= registers.stack()) return Step::end;
  const Registers before = registers;
  for (unsigned i = 0; i < Registers::kCount; i++) {
    const Rule& rule = rules.of[i];
    if (rule.kind == Rule::Kind::stored) {
      const uintptr_t place = cfa + static_cast<uintptr_t>(rule.offset);
      if (!registers.read_word(place, registers.value[i])) return Step::end;
    } else if (rule.kind == Rule::Kind::in_register) {
      if (static_cast<size_t>(rule.offset) >= Registers::kCount) return Step::end;
      registers.value[i] = before.value[rule.offset];
    }
  }
  if (rules.of[rules.return_register].kind == Rule::Kind::undefined) return Step::end;
  registers.pc = plain_return_address(registers.value[rules.return_register]);
  registers.value[Registers::kStack] = cfa;
  return registers.pc == 0 ? Step::end : Step::done;
}

// As `apply`.
NEAR_INLINE Step apply_short(const ShortRules& rules, Registers& registers) {
  if (rules.has_no_caller) return Step::end;
  if (rules.cfa_register == ShortRules::kNoTable) return Step::unknown;
  uintptr_t cfa = registers.value[rules.cfa_register] + static_cast<uintptr_t>(rules.cfa_offset);
  if (rules.cfa_is_stored && !registers.read_word(cfa, cfa)) return Step::end;
  if (cfa <= registers.stack()) return Step::end;
#pragma GCC unroll 12
  for (unsigned i = 0; i < std::size(Registers::kKept); i++) {
    if (rules.stored[i] == 0) continue;
    const uintptr_t place = cfa + static_cast<uintptr_t>(rules.stored[i]) * sizeof(uintptr_t);
    if (!registers.read_word(place, registers.value[Registers::kKept[i]])) return Step::end;
  }
  registers.pc = plain_return_address(registers.value[Registers::kReturn]);
  registers.value[Registers::kStack] = cfa;
  return registers.pc == 0 ? Step::end : Step::done;
}

}  // namespace

Step step_by_tables(Registers& registers, KnownRules& known) {
  const uintptr_t pc = registers.pc;
  if (const ShortRules* rules = known.find_tested(pc)) return apply_short(*rules, registers);
  const void* header = find_unwind_header(pc);
  if (header == nullptr) return Step::unknown;
  const SearchTable table(header);
  if (const ShortRules* rules = known.find(pc, table)) return apply_short(*rules, registers);
  const uint32_t number = table.find(pc);
  if (number == SearchTable::kNone) return Step::unknown;
  Rules rules;
  switch (find_rules(table.description(number), pc, rules)) {
    case Found::rules:
      known.add(pc, table, number, rules);
      return apply(rules, registers);
    case Found::nothing:
      known.add_unknown(pc, table, number);
      return Step::unknown;
    case Found::not_understood:
      break;
  }
  return Step::end;
}

}  // namespace near::profile
