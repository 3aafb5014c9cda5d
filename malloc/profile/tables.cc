#include "profile/tables.h"

#include "platform/unwind_header.h"
#include "profile/cfi.h"

namespace near::profile {
namespace {

// The form that linkers write: 4-byte numbers; entries relative to the header, sorted. They follow
// the header.
struct Header {
  uint8_t version;
  uint8_t pointer_encoding;
  uint8_t count_encoding;
  uint8_t table_encoding;
  int32_t frames;
  uint32_t count;
};
struct Entry {
  int32_t start;
  int32_t description;
};

// The description (FDE) of the last function that starts at or before the address; null if there is
// none.
const uint8_t* find_description(const uint8_t* start, uintptr_t pc) {
  const auto* header = reinterpret_cast<const Header*>(start);
  constexpr uint8_t kPcRelative4 = 0x1b;
  constexpr uint8_t kUnsigned4 = 0x03;
  constexpr uint8_t kHeaderRelative4 = 0x3b;
  if (header->version != 1 || header->pointer_encoding != kPcRelative4) return nullptr;
  if (header->count_encoding != kUnsigned4 || header->table_encoding != kHeaderRelative4) {
    return nullptr;
  }
  const auto* entries = reinterpret_cast<const Entry*>(header + 1);
  const auto place = static_cast<intptr_t>(pc - reinterpret_cast<uintptr_t>(start));
  uint32_t low = 0;
  uint32_t high = header->count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (entries[middle].start <= place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? nullptr : start + entries[low - 1].description;
}

bool find_frame_address(const Rules& rules, Registers& registers, uintptr_t& cfa) {
  if (rules.cfa_register >= Registers::kCount) return false;
  cfa = registers.value[rules.cfa_register] + static_cast<uintptr_t>(rules.cfa_offset);
  return !rules.cfa_is_stored || registers.read_word(cfa, cfa);
}

// On aarch64 a return address may carry a signature in its highest bits.
uintptr_t plain_address(uintptr_t address) { return address & 0x00ff'ffff'ffff'ffff; }

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
  registers.pc = plain_address(registers.value[rules.return_register]);
  registers.value[Registers::kStack] = cfa;
  return registers.pc == 0 ? Step::end : Step::done;
}

}  // namespace

Step step_by_tables(Registers& registers) {
  const auto* header = static_cast<const uint8_t*>(find_unwind_header(registers.pc));
  if (header == nullptr) return Step::unknown;
  const uint8_t* description = find_description(header, registers.pc);
  if (description == nullptr) return Step::unknown;
  Rules rules;
  switch (find_rules(description, registers.pc, rules)) {
    case Found::rules:
      return apply(rules, registers);
    case Found::nothing:
      return Step::unknown;
    case Found::not_understood:
      break;
  }
  return Step::end;
}

}  // namespace near::profile
