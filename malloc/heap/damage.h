// Holds the damage that a heap found under its lock until a thread without locks reports it.
//
// A report may end the process, and a handler of SIGABRT may allocate or fork, so no lock may be
// held during a report. There is room for one finding: damage found before that one is reported is
// handled in the same way but not reported. The slow paths of front/ look here before they return.
// Thread-safety: any thread. `record_damage` may be called with locks held; it does not allocate.
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "span/span.h"

namespace near {

// The finding in one word: the flaw above the address; 0 if there is none. Aligned, because every
// slow path reads it: nothing that threads write shares its cache lines.
struct alignas(128) RecordedDamage {
  Atomic<uint64_t> word{0};
};
extern NEAR_HIDDEN RecordedDamage recorded_damage;

void record_damage(const Damage& damage);

// Returns the finding; no other caller gets it again.
Damage take_damage();

// relaxed: take_damage decides
inline bool is_damage_recorded() { return recorded_damage.word.load(kRelaxed) != 0; }

}  // namespace near
