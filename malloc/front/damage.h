// Reports a free list that the program damaged.
// Thread-safety: any thread, without locks held (see front/invalid.h).
#pragma once

#include "heap/damage.h"

namespace near {

// Takes the damage that a heap recorded (heap/damage.h), and reports it as an invalid free list.
NEAR_COLD void report_damage();

// Called at the end of each slow path in which a heap may have followed links.
inline void report_recorded_damage() {
  if (unlikely(is_damage_recorded())) report_damage();
}

}  // namespace near
