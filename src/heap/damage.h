// What heaps found damaged under their locks, until a thread without locks reports it.
//
// A report may end the process, and a handler of SIGABRT may allocate or fork: so no lock is held
// then. One finding fits: what is found before the first one is reported is handled like any other
// and not told. The slow paths of front/ look here before they return.
// Who may touch it: any thread; `note_damage` with locks held, nothing is allocated.
#pragma once

#include "base/atomic.h"
#include "base/compiler.h"
#include "span/span.h"

namespace near {

// The finding, in one word: the flaw above the address. 0: none
extern NEAR_HIDDEN Atomic<uint64_t> noted_damage;

void note_damage(const Damage& damage);

// Gives the finding to the caller alone.
Damage take_damage();

// relaxed: take_damage decides
inline bool is_damage_noted() { return noted_damage.load(kRelaxed) != 0; }

}  // namespace near
