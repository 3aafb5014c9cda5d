#include "profile/stack.h"

#include <link.h>

#include <cstddef>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "platform/clock.h"
#include "platform/registers.h"
#include "profile/known_rules.h"
#include "profile/tables.h"

namespace near::profile {
namespace {

// relaxed, wherever they are used: each is right by itself, and every start sets the same places
constinit Atomic<bool> follows_frames{false};
// This library's code; both 0 if it is in the program's own file.
constinit Atomic<uintptr_t> own_start{0};
constinit Atomic<uintptr_t> own_end{0};

// Finds the loadable segment that holds this code. The program's own file has no name.
int visit_object(struct dl_phdr_info* object, size_t, void*) {
  const auto here = reinterpret_cast<uintptr_t>(&capture_stack);
  const bool is_program = object->dlpi_name == nullptr || object->dlpi_name[0] == '\0';
  for (unsigned i = 0; i < object->dlpi_phnum; i++) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || here - start >= segment.p_memsz) continue;
    if (!is_program) {
      own_end.store(start + segment.p_memsz, kRelaxed);  // relaxed: see above
      own_start.store(start, kRelaxed);                  // relaxed: see above
    }
    return 1;
  }
  return 0;
}

bool is_own_code(uintptr_t address) {
  const uintptr_t start = own_start.load(kRelaxed);         // relaxed: see above
  return address - start < own_end.load(kRelaxed) - start;  // relaxed: see above
}

// A frame pointer leads to the caller's, and the return address lies behind it. Stacks grow
// downward, and no frame is this large: so a value that is no frame pointer ends the stack.
Step step_by_frame(Registers& registers) {
  constexpr uintptr_t kLargestFrame = 256 * kKiB;
  registers.distrust();  // what is no frame pointer may lead anywhere
  const uintptr_t place = registers.frame();
  if (place - registers.stack() >= kLargestFrame) return Step::end;
  uintptr_t& caller = registers.value[Registers::kFrame];
  const bool known = registers.read_word(place, caller) &&
                     registers.read_word(place + sizeof(uintptr_t), registers.pc);
  registers.pc = plain_return_address(registers.pc);
  registers.value[Registers::kStack] = place + 2 * sizeof(uintptr_t);
  return known && registers.pc != 0 ? Step::done : Step::end;
}

Step step(Registers& registers, KnownRules& known) {
  if (!follows_frames.load(kRelaxed)) {  // relaxed: see above
    const Step result = step_by_tables(registers, known);
    if (result != Step::unknown) return result;
  }
  return step_by_frame(registers);
}

}  // namespace

void prepare_stacks(bool by_frame_pointers) {
  follows_frames.store(by_frame_pointers, kRelaxed);  // relaxed: see above
  dl_iterate_phdr(visit_object, nullptr);
}

// A return address belongs to the call before it, which may be the last instruction of a function.
NEAR_NOINLINE unsigned capture_stack(uintptr_t* frames, unsigned most) {
  Registers registers;
  registers.read();
  KnownRules known(coarse_now_ms());
  known.trust_stack(registers);
  unsigned count = 0;
  while (count < most && step(registers, known) == Step::done) {
    const uintptr_t address = registers.pc;
    if (count > 0 || !is_own_code(address)) frames[count++] = address;
    registers.pc = address - 1;
  }
  known.keep_stack(registers);
  return count;
}

}  // namespace near::profile
