#include "support/fake_cpu.h"

#include "platform/cpu.h"

namespace {
thread_local unsigned chosen = 0;
}

namespace near_test {
void set_cpu(unsigned cpu) { chosen = cpu; }
}  // namespace near_test

namespace near {
unsigned current_cpu() { return chosen; }
}  // namespace near
