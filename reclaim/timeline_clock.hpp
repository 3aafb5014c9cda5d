// What the clock of timelines needs besides now().
// Thread-safety: any thread.
#pragma once

namespace near::reclaim {

// Makes now() use the processor's counter if that is safe; takes 10 ms once in a process.
void calibrate_clock() noexcept;

}  // namespace near::reclaim
