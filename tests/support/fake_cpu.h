// A CPU that tests choose. It replaces platform/cpu.cc: the linker takes the first
// current_cpu().
// Thread-safety: each thread has its own; a new thread runs on CPU 0.
#pragma once

namespace near_test {

void set_cpu(unsigned cpu);

}  // namespace near_test
